"""What benchmarks leave behind."""

from __future__ import annotations

import json
from pathlib import Path


def written(report: dict, out: Path | None) -> None:
    """Writes a report as JSON, where a file is asked for."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
