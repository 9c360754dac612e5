"""Connections: how many a visitor may hold, how long they may do nothing, and the server's thread.

A connection costs memory as long as it is open, and what was answered but not read costs more.
So a visitor who opens many, begins requests and never ends them, or asks for pages and doesn't
read them, loses the connections that do nothing; others go on being served.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.demo.places import visitor

_BUSY = b"The server has too many connections; try again later.\n"
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Retry-After: 5\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_BUSY), _BUSY)
)


@dataclass(frozen=True)
class Patience:
    """What one visitor, and all of them, may take.

    connections: of all visitors. each: of one visitor; a page in a browser holds up to six.
    header: seconds until a request's header must be there. unread: seconds that an answer may
    wait for its reader. idle: seconds that a connection is kept for the next request. buffer:
    bytes of an answer that wait in memory for each connection.
    """

    connections: int = 512
    each: int = 128
    header: float = 10.0
    unread: float = 30.0
    idle: int = 5
    buffer: int = 64 * 2**10


class Crowd:
    """All connections, by the visitor they come from.

    shared: addresses that many visitors come from, those of reverse proxies.
    """

    def __init__(self, patience: Patience, shared: Collection[str] = ()) -> None:
        self.patience, self.shared = patience, frozenset(shared)
        self._of: dict[str, set[Connection]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def enters(self, connection: Connection) -> bool:
        """Whether there is room for it; one that does nothing may have to go for it."""
        address = visitor(connection.address)
        own = self._of.get(address, set())
        if (
            connection.address not in self.shared
            and len(own) >= self.patience.each
            and not _end_idle(own)
        ):
            return False
        # Whoever has most of them gives one up.
        if len(self) >= self.patience.connections and not any(
            map(_end_idle, sorted(self._of.values(), key=len, reverse=True))
        ):
            return False
        self._of.setdefault(address, set()).add(connection)
        return True

    def leaves(self, connection: Connection) -> None:
        """It is closed."""
        address = visitor(connection.address)
        own = self._of.get(address, set())
        own.discard(connection)
        if not own:
            self._of.pop(address, None)


def _end_idle(connections: Collection[Connection]) -> bool:
    """End the one that has done nothing for longest; False where all of them do something."""
    idle = [(one.idle_since, one) for one in connections if one.idle_since is not None]
    if not idle:
        return False
    _, longest = min(idle, key=lambda timed: timed[0])
    longest.end()
    return True


class Connection(H11Protocol):
    """One connection, which ends when it is made to wait for too long.

    idle_since: since when it has waited for a request, or for its answer to be read; None while
    neither is so.
    """

    def __init__(self, crowd: Crowd, **given) -> None:
        super().__init__(**given)
        self.crowd = crowd
        self.address = ""
        self.idle_since: float | None = None
        self._entered = False
        self._waiting: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # uvicorn's own protocol declares the narrower type, too: only these are served.
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        transport.set_write_buffer_limits(self.crowd.patience.buffer)
        self._entered = self.crowd.enters(self)
        if not self._entered:
            transport.write(_REFUSAL)
            transport.close()
            return
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        if self._entered:
            self.crowd.leaves(self)
            self._entered = False
        super().connection_lost(exc)

    def end(self) -> None:
        """Close it at once, with whatever was still to be sent."""
        if self._entered:
            self.crowd.leaves(self)
            self._entered = False
        self._stop_waiting()
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._entered:
            return
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        else:
            self._wait_for_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answering() and not self.transport.is_closing():
            self._wait_for_request()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_request(self) -> None:
        """Once only for each request, or a byte now and then would keep it waiting."""
        if self._waiting is None:
            self.idle_since = time.monotonic()
            self._waiting = self.loop.call_later(self.crowd.patience.header, self.end)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = self.idle_since = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self.idle_since = time.monotonic()
            self._unread = self.loop.call_later(self.crowd.patience.unread, self.end)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = self.idle_since = None


class Server(uvicorn.Server):
    """Serves an application in a thread until it is closed.

    proxies: addresses of reverse proxies, whose word is taken for who asks, and by http or https.
    """

    def __init__(
        self,
        application: ASGIApp,
        host: str,
        port: int,
        *,
        patience: Patience,
        proxies: Collection[str] = (),
    ) -> None:
        self.crowd = Crowd(patience, proxies)
        super().__init__(
            uvicorn.Config(
                application,
                host=host.strip("[]"),
                port=port,
                http=_protocol(self.crowd),  # type: ignore[arg-type]  # anything that makes one
                ws="none",
                loop="asyncio",  # Ray brings another one, which nothing here was tried with
                lifespan="on",
                log_level="error",
                server_header=False,
                backlog=patience.connections,
                timeout_keep_alive=patience.idle,
                timeout_graceful_shutdown=2,
                proxy_headers=bool(proxies),
                forwarded_allow_ips=list(proxies),
            )
        )
        # What an unfinished request looks like is the visitor's own affair.
        logging.getLogger("uvicorn.error").addFilter(_is_not_a_farewell)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        """Returns once it listens. Raises OSError where it can't."""
        self._thread.start()
        while not self.started:
            if self._ended.wait(0.01):
                raise OSError(f"cannot listen on {self.config.host}:{self.config.port}")

    def _run(self) -> None:
        try:
            self.run()
        except SystemExit:  # how uvicorn says that it could not start
            pass
        finally:
            self._ended.set()

    async def startup(self, sockets=None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def install_signal_handlers(self) -> None:
        """Signals are the main thread's."""

    def soon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have the server's loop do something, as long as it runs."""
        if self._loop is not None and not self._ended.is_set():
            with suppress(RuntimeError):  # it ends just now
                self._loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.ensure_future(work())
        self._begun.add(task)  # the loop itself would forget it
        task.add_done_callback(self._begun.discard)

    def close(self) -> None:
        """Ends every connection and the thread."""
        self.should_exit = True
        if self._loop is not None and not self._ended.is_set():
            self._loop.call_soon_threadsafe(self._end_all)
        self._thread.join(10)

    def _end_all(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _protocol(crowd: Crowd) -> Callable[..., asyncio.Protocol]:
    return functools.partial(Connection, crowd)


def _is_not_a_farewell(record: logging.LogRecord) -> bool:
    return "timeout graceful shutdown exceeded" not in str(record.msg)
