"""How Ray is found, started and reached: whatever can be wrong with that is said in one line."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.listing import CommandError

ROOT = Path(__file__).resolve().parents[2]

MISSING = "Ray is not installed: `make cluster-deps` installs it (requirements-cluster.txt)"

_REACHED_WITHIN = 5.0  # seconds for the cluster's machine to answer, and for it to speak Ray's way
_STORE = 500 * 2**20  # bytes for what machines pass to one another: lists and outcomes, no pictures

# A busy machine starts Ray's processes slowly, which is no reason to give up.
_PATIENT = {
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
    # What is painted, and that anything is, is nobody else's business.
    "RAY_USAGE_STATS_ENABLED": "0",
}

# A cluster that is there answers the first time; what else listens at its address does not the
# twentieth time either, and each is a line on stderr.
_BRIEF = {"RAY_NUM_REDIS_GET_RETRIES": "2"}

# Ray's own code begins with it.
_WHO_ARE_YOU = "/ray.rpc.NodeInfoGcsService/GetClusterId"


def check_installed() -> None:
    """Raises CommandError without Ray."""
    if importlib.util.find_spec("ray") is None:
        raise CommandError(MISSING)


def check_address(address: str) -> None:
    """Raises CommandError for an address that is none, or that no cluster answers at."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "auto")
        if "://" in address:  # Ray's own concern
            return
    if address in ("auto", "local"):
        return
    named = re.fullmatch(r"\[?([\w.:-]+?)\]?:(\d{1,5})", address)
    if named is None or not 1 <= int(named[2]) <= 65535:
        raise CommandError(f"--address is auto, local or HOST:PORT, not {address}")
    try:
        socket.create_connection((named[1], int(named[2])), _REACHED_WITHIN).close()
    except OSError as error:
        why = error.strerror or str(error) or "no answer"
        raise CommandError(f"--address {address}: no Ray cluster answers there: {why}") from None
    if os.environ.get("RAY_USE_TLS", "0") in ("", "0"):
        _check_is_a_cluster(address)


def _check_is_a_cluster(address: str) -> None:
    # Ray itself would ask whatever listens there for a quarter of an hour.
    import grpc

    # A proxy for the web, if one is set, is none for clusters.
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            grpc.channel_ready_future(channel).result(_REACHED_WITHIN)
        except grpc.FutureTimeoutError:
            why = "what listens there is no Ray cluster"
            raise CommandError(f"--address {address}: {why}") from None
        try:
            channel.unary_unary(_WHO_ARE_YOU)(b"", timeout=_REACHED_WITHIN)
        except grpc.RpcError as error:
            # To an address that is given, Ray sends this machine's token only if told to.
            if error.code() != grpc.StatusCode.UNAUTHENTICATED or "RAY_AUTH_MODE" in os.environ:
                return
            raise CommandError(
                f"--address {address}: the cluster asks for a token: RAY_AUTH_MODE=token sends "
                "that of ~/.ray/auth_token or RAY_AUTH_TOKEN"
            ) from None


@contextmanager
def connected(address: str, *, dashboard: bool = False) -> Iterator[Any]:
    """Inside, Ray runs: one of this machine's own for "local", else the cluster's.

    Gives the module. Raises CommandError where it can't be reached or started.
    """
    check_installed()
    check_address(address)
    for name, value in (_PATIENT if address == "local" else _PATIENT | _BRIEF).items():
        os.environ.setdefault(name, value)
    import ray

    given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        given |= {"include_dashboard": dashboard, "object_store_memory": _STORE}
    else:
        # Other machines need not have this code, let alone the same.
        modules = [str(ROOT / name) for name in ("app", "models", "wct")]
        given |= {"runtime_env": {"py_modules": modules}}
    try:
        ray.init(address=address, **given)
    except ConnectionError as error:
        if address != "auto":
            raise _not_connected(address, error) from None
        raise CommandError(
            "--address auto: no Ray cluster runs on this machine (`ray start --head` starts one; "
            "--address local needs none)"
        ) from None
    except Exception as error:
        raise _not_connected(address, error) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _not_connected(address: str, error: Exception) -> CommandError:
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return CommandError(f"--address {address}: Ray can't be reached or started: {text}")
