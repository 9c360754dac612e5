"""A checkpoint between two of one training: their weights' mean, with the first one's style codes.

What both have learned stays, and what a training under other losses adds becomes less (Wortsman et
al., "Model soups", 2022). Codes are to be chosen anew, by app.codes.

python -m benchmarks.average_weights BEFORE AFTER --share 0.6 --out FILE
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import models


def averaged(before: models.Checkpoint, after: models.Checkpoint, share: float) -> models.Repainter:
    """The first one's network with so much of the second one's weights, from 0 to 1.

    Raises:
        ValueError: networks of two shapes.
    """
    if before.network.config != after.network.config:
        raise ValueError(f"of two shapes: {before.network.config} and {after.network.config}")
    first, second = before.network.state_dict(), after.network.state_dict()
    before.network.load_state_dict({k: v.lerp(second[k], share) for k, v in first.items()})
    return before.network


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="of the second one (0.5)")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(argv)
    try:
        before, after = (models.load_checkpoint(p) for p in (arguments.before, arguments.after))
        if not 0 <= arguments.share <= 1:
            raise ValueError(f"--share must be between 0 and 1, got {arguments.share}")
        network = averaged(before, after, arguments.share)
        record = after.record | {"averaged": {"share": arguments.share, "with": before.record}}
        models.save_checkpoint(arguments.out, network, before.styles, record)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(
        f"{arguments.out}: {arguments.share:.0%} of {arguments.after}, the rest {arguments.before}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
