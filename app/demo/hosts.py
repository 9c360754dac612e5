"""Which host names the server answers for: what keeps a page elsewhere from driving it.

A page on evil.example may let its name point to 127.0.0.1 (rebinding). Its visitor's browser then
takes this server for evil.example and lets the page read all of it. But the browser still says
"Host: evil.example", so that a server that answers only for its own names gives nothing away.
An address written in digits is nobody's name and can't be pointed elsewhere.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+?)\.?(?::(?P<port>[0-9]{1,5}))?")


def split_host(text: str) -> tuple[str, int | None] | None:
    """Name (in lower case, without brackets) and port of "name:port"; None where it is neither."""
    found = _HOST.fullmatch(text.strip().lower())
    if found is None:
        return None
    return found["name"].strip("[]"), None if found["port"] is None else int(found["port"])


def is_address(name: str) -> bool:
    """Whether it is written in digits, so that no name server is asked for it."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (is_address(name) and ipaddress.ip_address(name).is_loopback)


class Hosts:
    """The names a server is reached by.

    served: what it listens on; "0.0.0.0" and "::" are every address of the machine. port: likewise.
    named: further names ("repaint.example.org", or with a port, which is then the only one), and
    whole origins ("https://repaint.example.org"). Raises ValueError for one that is no name.
    """

    def __init__(self, served: str, port: int, named: Iterable[str] = ()) -> None:
        self.served, self.port = served.strip("[]").lower(), port
        self.everywhere = (
            is_address(self.served) and ipaddress.ip_address(self.served).is_unspecified
        )
        self.named: set[tuple[str, int | None]] = set()
        for name in named:
            self.add(name)

    def add(self, name: str) -> None:
        """Answer for one more name."""
        host = split_host(urlsplit(name).netloc if "://" in name else name)
        if host is None:
            raise ValueError(f"{name!r} is not the name of a host")
        self.named.add(host)

    def allows(self, host: str) -> bool:
        """Whether a request with this Host header is for this server."""
        parts = split_host(host)
        if parts is None:
            return False
        name, port = parts
        if (name, None) in self.named or parts in self.named:
            return True
        if self.everywhere:
            # The port, too, may be another one: a container's is often mapped.
            return is_address(name) or name == "localhost"
        if (80 if port is None else port) != self.port:
            return False
        return name == self.served or (_is_loopback(self.served) and _is_loopback(name))

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may ask; host: the request's Host header, allowed before.

        Its own pages may, and those of a name that was given: a reverse proxy may put another
        name into Host than the browser did.
        """
        try:
            parts = urlsplit(origin)
        except ValueError:  # brackets that don't match, say
            return False
        if parts.scheme not in ("http", "https") or origin.count("/") != 2:
            return False  # "null" is a sandboxed frame's or a file's
        if parts.netloc.lower() == host.strip().lower():
            return True
        asking = split_host(parts.netloc)
        return asking is not None and (asking in self.named or (asking[0], None) in self.named)
