"""Running out of memory is known by each of its wordings."""

import pytest
import torch

from app.memory import is_out_of_memory


@pytest.mark.parametrize(
    ("error", "yes"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to get 9 bytes"), True),
        (RuntimeError("the solver did not converge"), False),
        (ValueError("no place to allocate"), False),
        (OSError(28, "No space left on device"), False),
    ],
    ids=str,
)
def test_out_of_memory_is_told_from_other_errors(error, yes):
    assert is_out_of_memory(error) is yes


def test_a_real_allocation_that_fails_is_known():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**55, dtype=torch.float64)
    assert is_out_of_memory(caught.value)
