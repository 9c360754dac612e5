"""Names of files as other systems write lists of them, read as the names that are on this disk."""

from __future__ import annotations

import glob
import os
import re
import unicodedata
import urllib.parse
import urllib.request
from collections.abc import Iterator

from app import globs, images

_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)

# What systems wrote before UTF-8, by what is most used. The disk says which of them was meant.
_OLDER = (
    *("cp1252", "mac_roman", "cp850", "cp437", "cp1250", "cp1251", "cp1253", "cp1254"),
    *("cp932", "gb18030", "big5", "cp949", "koi8_r", "iso8859_2"),
)

_QUOTES = ('""', "''", "“”", "«»")


def names(data: bytes) -> list[str]:
    """The names in a list, one a line or between zero bytes.

    Each is the first reading of its line that is there: as it stands, without blanks around it
    and quotes, as an address (file:), with \\ for /, composed in another way, in an older
    encoding. Where none is there, the name is the line without blanks and quotes. Lines that begin
    with # and name no picture are comments.
    """
    encoding = None
    for mark, its_encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            data, encoding = data.removeprefix(mark), its_encoding
            break
    if encoding is None:
        encoding = _sixteen_bit(data)
    if encoding not in (None, "utf-8"):
        text = data.decode(encoding, "replace").removeprefix("\ufeff")
        # The bytes that a name has on this disk, where those are UTF-8.
        data = text.encode("utf-8", "surrogatepass")
    if b"\0" in data:
        parts = data.split(b"\0")
        return [os.fsdecode(part) for part in parts if part.strip()]
    lines = (line for line in re.split(rb"\r\n|\r|\n", data) if line.strip())
    return [name for line in lines if (name := _name(line)) is not None]


def _sixteen_bit(data: bytes) -> str | None:
    """UTF-16 without a mark: every other byte is zero, for most of a path is ASCII."""
    for encoding, zeros, others in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        high, low = data[zeros::2], data[others::2]
        newline = any(end.encode(encoding) in data for end in "\r\n")
        # Names of one letter between zero bytes look the same, but for the line's end.
        if newline and len(data) % 2 == 0 and high.count(0) > 0.5 * len(high) > 2 * low.count(0):
            return encoding
    return None


def _name(line: bytes) -> str | None:
    """The name that a line stands for; None for a comment."""
    for reading in _readings(line):
        if _is_there(reading):
            return reading
    plain = _unquoted(os.fsdecode(line).strip())
    if plain.startswith("#") and not images.is_picture_name(plain):
        return None
    return plain


def _readings(line: bytes) -> Iterator[str]:
    yield from _spellings(os.fsdecode(line))
    if not line.isascii():
        for encoding in _OLDER:
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError:
                continue
            # Through bytes, as in `names`: this system's own encoding may be ASCII.
            yield from _spellings(os.fsdecode(text.encode()) if os.name == "posix" else text)


def _spellings(text: str) -> Iterator[str]:
    """Ways in which one name is written, the likeliest first."""
    yield text
    trimmed = text.strip()
    unquoted = _unquoted(trimmed)
    yield trimmed
    yield unquoted
    if unquoted.startswith("file:"):
        path = urllib.parse.urlsplit(unquoted).path
        unquoted = urllib.request.url2pathname(path)
        yield unquoted
    if os.sep == "/" and "\\" in unquoted:
        yield unquoted.replace("\\", "/")
    for form in ("NFC", "NFD"):  # the Mac's own way to write an é, and everybody else's
        yield unicodedata.normalize(form, unquoted)


def _unquoted(text: str) -> str:
    if len(text) > 2 and text[0] + text[-1] in _QUOTES:
        return text[1:-1].strip()
    return text


def _is_there(name: str) -> bool:
    try:
        return os.path.lexists(name) or (glob.has_magic(name) and any(globs.matches(name)))
    except (OSError, ValueError):  # a name that this system cannot have
        return False
