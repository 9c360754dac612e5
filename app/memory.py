"""Memory: how running out of it is told from other errors, and how the system gets it back."""

from __future__ import annotations

import ctypes
import gc
import sys

import torch

# glibc's numbers of what mallopt sets.
_M_ARENA_MAX = -8


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory, the device's or the machine's.

    Python and CUDA have classes for it; torch's CPU allocators raise a RuntimeError, in two
    wordings.
    """
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("allocate" in text or "not enough memory" in text)


def allocate_in_one_arena() -> None:
    """Let threads begun from now on share malloc's main arena.

    Else each has one of its own, where what lives long keeps the pages around it: a server that
    answers in ever new threads grows. One thread paints at a time, so they hardly meet. Nothing is
    done where malloc isn't glibc's.
    """
    if set_option := _of_glibc("mallopt"):
        set_option(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Give the system the memory that malloc keeps for what comes next; glibc's alone does."""
    gc.collect()
    if trim := _of_glibc("malloc_trim"):
        trim(0)


def _of_glibc(name: str):
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
