"""How the several ways to run out of memory are told from other errors."""

from __future__ import annotations

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory, the device's or the machine's.

    Python and CUDA have classes for it; torch's CPU allocators raise a RuntimeError, in two
    wordings.
    """
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("allocate" in text or "not enough memory" in text)
