"""Whether a browser reads what is compressed."""

from __future__ import annotations

import re

_CODING = re.compile(r"([\w*-]+)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?))?", re.IGNORECASE)


def takes_gzip(accepted: str) -> bool:
    """By an ``Accept-Encoding`` header (RFC 9110, 12.5.3): named, or all, and not with weight 0.

    What is no coding counts for nothing: what is not compressed everybody reads.
    """
    named = (_CODING.fullmatch(part.strip()) for part in accepted.split(","))
    weights = {found[1].lower(): float(found[2] or 1) for found in named if found}
    for name in ("gzip", "x-gzip", "*"):
        if name in weights:
            return weights[name] > 0
    return False
