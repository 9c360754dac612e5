"""Coroutines in tests, whatever else runs in the process."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run(coroutine: Coroutine) -> Any:
    """What a coroutine returns, in a loop of a thread of its own.

    In the main thread a browser's loop may run already, since test files share processes.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
