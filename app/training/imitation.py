r"""A refinement that begins where learned codes are: reading a painting gives its style's own code.

python -m app.training.imitation --checkpoint FILE --style NAME=FOLDER ... --imitate NAME ... \
    --out FILE

A code that was learned by itself paints a style that no painting's statistics lead to, and these
statistics do tell the style. So the refinement is first taught, in minutes, to answer the paintings
of such a style with its built-in code, and all others as before; nothing is painted for it.
``app.train --train refinement`` goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

import models
from app.choosing import spread
from app.dataset import FolderError, PictureFolder
from app.named_folders import style_folders
from app.terminal import failed, show_anything
from models.refinement import deviation

PAINTINGS = 140  # a style, evenly spread
DRAWN, DRAWN_ELSE = 3, 2  # paintings a step of a style that is imitated, and of another
LEARNING_RATE = 1e-3
NOISE = 0.05  # of what is read, in units of a group's deviation

Codes = Mapping[str, models.StyleCode]


def distance(codes: models.StyleCode, goals: models.StyleCode) -> Tensor:
    """How far codes (B) are from others, squared, in units of the goals' deviations: (B,)."""
    total = torch.zeros(len(codes.tensors[0]))
    pairs = list(zip(codes.tensors, goals.tensors, strict=True))
    for (mean, goal_mean), (root, goal_root) in zip(pairs[::2], pairs[1::2], strict=True):
        size = deviation(goal_root)
        for own, goal in ((mean, goal_mean), (root, goal_root)):
            total = total + ((own - goal) / size).square().flatten(1).mean(1)
    return total / len(pairs)


def expanded(code: models.StyleCode, count: int) -> models.StyleCode:
    """One painting's code as a batch of as many."""
    return models.StyleCode(tuple(t.float().expand(count, *t.shape[1:]) for t in code.tensors))


def read(
    network: models.Repainter, folder: PictureFolder, count: int = PAINTINGS
) -> models.StyleCode:
    """The codes of a folder's paintings as they are, not refined."""
    return models.StyleCode.cat(
        [network.read_style(folder.tensor(i)) for i in spread(count, len(folder))]
    )


def answers(
    network: models.Repainter, codes: Codes, imitated: Codes
) -> dict[str, models.StyleCode]:
    """What the refinement is to answer: a style's own code, or what it answers now."""
    with torch.no_grad():
        return {
            name: expanded(imitated[name], len(own.tensors[0]))
            if name in imitated
            else network.refine(own)
            for name, own in codes.items()
        }


def imitate(
    network: models.Repainter, codes: Codes, imitated: Codes, steps: int, seed: int = 0
) -> tuple[float, float]:
    """Teaches a network's refinement; nothing else of it moves.

    Args:
        codes: what was read of each style's paintings, not refined, a batch a style.
        imitated: of some of the styles, the code to imitate.
        steps: of Adam, its rate falling to 0.

    Returns:
        The mean :func:`distance` of the imitated styles' paintings, before and after.
    """
    refinement = network.refinement
    assert refinement is not None
    wanted = answers(network, codes, imitated)

    def apart() -> float:
        with torch.no_grad():
            means = [distance(refinement(codes[n]), wanted[n]).mean() for n in imitated]
        return float(torch.stack(means).mean())

    before = apart()
    draw = torch.Generator().manual_seed(seed)
    refinement.requires_grad_(True)
    optimizer = torch.optim.AdamW(refinement.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in tqdm(range(steps), desc="imitating", unit="step", mininterval=1):
        seen, right = [], []
        for name, own in codes.items():
            count = DRAWN if name in imitated else DRAWN_ELSE
            rows = torch.randint(len(own.tensors[0]), (count,), generator=draw)
            seen.append(_noised(_rows(own, rows), draw))
            right.append(_rows(wanted[name], rows))
        batch = models.StyleCode.cat(seen)
        loss = distance(refinement(batch), models.StyleCode.cat(right)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    refinement.requires_grad_(False)
    return before, apart()


def _rows(code: models.StyleCode, rows: Tensor) -> models.StyleCode:
    return models.StyleCode(tuple(t[rows] for t in code.tensors))


def _noised(code: models.StyleCode, draw: torch.Generator) -> models.StyleCode:
    tensors = list(code.tensors)
    for index in range(0, len(tensors), 2):
        noise = torch.randn(tensors[index].shape, generator=draw)
        tensors[index] = tensors[index] + NOISE * deviation(tensors[index + 1]) * noise
    return models.StyleCode(tuple(tensors))


def _checked(
    checkpoint: models.Checkpoint, styles: Sequence[str], asked: Sequence[str]
) -> dict[str, models.StyleCode]:
    """The codes to imitate. Raises ValueError."""
    if checkpoint.network.refinement is None:
        raise ValueError("the network has no refinement: train one first (app.train)")
    for name in asked:
        if name not in styles:
            raise ValueError(f"--imitate {name}: there is no --style of that name")
        if name not in checkpoint.styles:
            built_in = ", ".join(checkpoint.styles)
            raise ValueError(f"--imitate {name}: the checkpoint has no such style, but {built_in}")
    return {name: checkpoint.styles[name][0] for name in asked}


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 done, 1 it could not be written, 2 a wrong command line or file."""
    show_anything()
    parser = argparse.ArgumentParser(
        prog="python -m app.training.imitation",
        description="Teaches a network to read a style's built-in code off the style's paintings.",
    )
    add = parser.add_argument
    add("--checkpoint", required=True)
    add("--style", action="append", required=True, metavar="NAME=FOLDER", help="paintings")
    add("--imitate", nargs="+", required=True, metavar="NAME", help="styles with a built-in code")
    add("--steps", type=int, default=900, help="(900)")
    add("--seed", type=int, default=0)
    add("--out", type=Path, required=True, metavar="FILE.safetensors")
    options = parser.parse_args(argv)
    try:
        if options.steps < 1:
            raise ValueError(f"--steps must be positive, got {options.steps}")
        checkpoint = models.load_checkpoint(options.checkpoint)
        folders = style_folders(options.style)
        imitated = _checked(checkpoint, list(folders), options.imitate)
        network = checkpoint.network
        paintings = {n: PictureFolder(f, name=n, count=PAINTINGS) for n, f in folders.items()}
    except (ValueError, FolderError, FileNotFoundError) as error:
        return failed(error, 2)
    codes = {name: read(network, folder) for name, folder in paintings.items()}
    before, after = imitate(network, codes, imitated, options.steps, options.seed)
    try:
        models.save_checkpoint(options.out, network, checkpoint.styles, checkpoint.record)
    except (OSError, models.CheckpointError) as error:
        return failed(error, 1)
    print(f"{options.out}: from the built-in codes {before:.3f} before, {after:.3f} after")
    return 0


if __name__ == "__main__":
    sys.exit(main())
