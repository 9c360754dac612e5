"""The service on Ray Serve: one front that takes orders, and replicas that paint."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from app import images
from app.limits import Limits
from app.painter import Painter
from app.serve.front import LARGEST, LONGEST_WAIT, BusyError, Front
from app.serve.orders import Answer, Easel, Order

_TRIES = 3  # of an order whose replica died: it is painted anew, with the same result
_DRAIN = 60.0  # seconds for what is in hand when the service ends


@dataclass(frozen=True)
class Service:
    """How the service runs.

    Attributes:
        checkpoint: the file's bytes: other machines may not have it.
        least, most: replicas that paint.
        queue: orders that may wait beside those that are being painted.
        longest_wait: seconds within which an order is begun, or refused.
    """

    checkpoint: bytes = field(repr=False)
    device: str = "auto"
    precision: str = "auto"
    max_pixels: int = images.MAX_PIXELS
    largest: int = LARGEST
    least: int = 1
    most: int = 1
    queue: int = 32
    longest_wait: float = LONGEST_WAIT
    num_cpus: float = 1
    num_gpus: float = 0


class Replica:
    """A painter of its own, one order at a time."""

    def __init__(self, service: Service) -> None:
        with tempfile.TemporaryDirectory(prefix="repaint-") as folder:
            file = Path(folder) / "checkpoint.safetensors"
            file.write_bytes(service.checkpoint)
            # Strangers' photos are not kept for the next one's request.
            painter = Painter(file, service.device, Limits(remembered_content=0), service.precision)
        self.easel = Easel(painter, service.max_pixels)
        # One at a time is as fast on one device, and holds no more memory than one.
        self._turn = threading.Lock()

    async def paint(self, order: Order) -> Answer | None:
        """The order's answer; None where it came to be begun too late."""
        # In a thread: Serve asks meanwhile whether the replica is well.
        return await asyncio.to_thread(self._paint, order)

    def _paint(self, order: Order) -> Answer | None:
        with self._turn:
            # The clocks of a cluster's machines agree well enough for a wait of seconds.
            return None if time.time() > order.begin_by else self.easel.paint(order)


class RayFront:
    """The front as a deployment: its process's one, beside which Serve runs the application."""

    front: Front
    replicas: Any = None

    def __init__(self, replicas: Any) -> None:
        RayFront.replicas = replicas

    async def take_lines(self) -> list[str]:
        """The log's lines since the last call."""
        return RayFront.front.take_lines()

    async def drain(self) -> int:
        """Takes no order any more; how many are still in hand."""
        RayFront.front.draining = True
        return RayFront.front.waiting


async def _painted(order: Order) -> Answer:
    """By one of the replicas; by another one where it dies meanwhile."""
    from ray.exceptions import RayActorError
    from ray.serve.exceptions import BackPressureError

    for left in reversed(range(_TRIES)):
        try:
            answer = await RayFront.replicas.paint.remote(order)
        except BackPressureError as error:
            raise BusyError from error
        except RayActorError as error:
            if not left:
                raise BusyError from error
        else:
            if answer is None:
                raise BusyError
            return answer
    raise AssertionError("the last try returns or raises")


def application(service: Service, painter: Painter) -> Any:
    """The application that ``ray.serve.run`` starts.

    Args:
        painter: that tells the styles' names.
    """
    from ray import serve

    styles = list(painter.style_names)
    variants = [
        f"{name}:{number}" if number > 1 else name
        for name, codes in painter.codes.items()
        for number in range(1, codes + 1)
    ]

    def built() -> FastAPI:
        RayFront.front = Front(
            _painted,
            styles,
            variants,
            most=service.most + service.queue,
            largest=service.largest,
            painters=lambda: service.most,
            longest_wait=service.longest_wait,
        )
        return RayFront.front.application

    replicas = serve.deployment(
        Replica,
        name="painter",
        # One is painted and one is there already: Serve looks for a free replica up to half a
        # second apart, in which a painter would be idle.
        max_ongoing_requests=2,
        max_queued_requests=-1,  # the front counts, exactly
        ray_actor_options={"num_cpus": service.num_cpus, "num_gpus": service.num_gpus},
        autoscaling_config={
            "min_replicas": service.least,
            "initial_replicas": service.least,
            "max_replicas": service.most,
            "target_ongoing_requests": 2,  # one is painted, one waits
            "upscale_delay_s": 5,
            "downscale_delay_s": 120,
        },
        graceful_shutdown_timeout_s=_DRAIN,
        health_check_timeout_s=120,
    )
    front = serve.deployment(
        serve.ingress(built)(RayFront),
        name="front",
        max_ongoing_requests=4 * (service.most + service.queue),
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=_DRAIN,
        health_check_timeout_s=120,
    )
    return front.bind(replicas.bind(service))
