"""The processes that train one network together: torchrun's, or one alone."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm


class NoGPUError(ValueError):
    """More processes than GPUs."""


@dataclass(frozen=True)
class Processes:
    """How many processes train together, and which of them this is.

    Every method that exchanges something must be called by all of them, in the same order.

    Attributes:
        device: this process's own.
    """

    device: torch.device
    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this one writes the files and speaks."""
        return self.rank == 0

    def say(self, line: str) -> None:
        """A line on stderr, from the first process alone; a progress bar stays below it."""
        if self.first:
            tqdm.write(line, file=sys.stderr)

    def largest(self, *values: float) -> list[float]:
        """The largest of all processes' values, one by one."""
        if self.count == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor.tolist()

    def mean(self, value: Tensor) -> Tensor:
        """The mean of all processes' values; cut from its graph."""
        value = value.detach().clone()
        if self.count > 1:
            dist.all_reduce(value)
            value /= self.count
        return value

    def distribute(self, module: nn.Module, *, partly: bool = False) -> nn.Module:
        """The module with its gradients averaged over the processes.

        Args:
            partly: a step may leave some of its parameters unused.
        """
        if self.count == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(
            module, device_ids=devices, find_unused_parameters=partly, broadcast_buffers=False
        )

    def wait(self) -> None:
        """Until all processes are here."""
        self.largest(0.0)


@contextmanager
def together(device: torch.device) -> Iterator[Processes]:
    """Joins the processes that torchrun started; alone where it did not start this one.

    gloo connects them on CPUs, nccl on GPUs, of which each process gets its own.

    Raises:
        NoGPUError: fewer GPUs than processes.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(device)
        return
    if device.type == "cuda":
        local = int(os.environ["LOCAL_RANK"])
        if local >= torch.cuda.device_count():
            raise NoGPUError(
                f"process {local + 1} has no GPU: there are {torch.cuda.device_count()}"
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Processes(device, dist.get_rank(), count)
    finally:
        # Distributed modules in a cycle keep the group's threads, and a process that ends before
        # those do is aborted.
        gc.collect()
        dist.destroy_process_group()
