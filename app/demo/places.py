"""Who has how many of the queue's places: one visitor does not take them all."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from app.demo.refusal import Refusal


def visitor(address: str) -> str:
    """Who is behind an address: of IPv6's the first half, since a household has the other.

    What is no address, a socket's name say, stands for itself.
    """
    try:
        own = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(own, ipaddress.IPv4Address):
        return str(own)
    if own.ipv4_mapped is not None:
        return str(own.ipv4_mapped)
    return str(ipaddress.ip_network((own, 64), strict=False).network_address)


class Places:
    """The queue's places, shared so that whoever comes next finds one.

    A visitor may have as many as are left free, and one in any case: alone half of them, beside
    another a third.

    places: how many there are. waiting: the addresses of those who have one, each as often as it
    has.
    """

    def __init__(self, places: int, waiting: Callable[[], Sequence[str]]) -> None:
        self.places, self.waiting = places, waiting
        self._joining: Counter[str] = Counter()

    @contextmanager
    def joining(self, address: str) -> Iterator[None]:
        """While a request for a place is on its way to the queue. Raises Refusal for one more."""
        asks = visitor(address)
        # Those on their way count, or many at once would be let through.
        taken = Counter(map(visitor, self.waiting())) + self._joining
        own = taken[asks]
        if own >= max(1, self.places - taken.total()):
            raise Refusal(
                429,
                f"You have {own} waiting already, and others shall find a place, too: "
                "ask again when one of yours is done.",
            )
        self._joining[asks] += 1
        try:
            yield
        finally:
            self._joining[asks] -= 1
            if not self._joining[asks]:
                del self._joining[asks]
