"""Writes a checkpoint as a folder of files, and reads it back to check it.

model.json      what is in the others, and every number that the page's own code goes by
encoder.onnx, generator.onnx, coder.onnx    see app.export.graphs
weights.bin     the graphs' weights, packed: see app.export.packing
canvas.bin      the strokes and the paper's grain
NAME-N.bin      the N-th code of a style
NAME-N.webp     a picture painted with it
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from PIL import Image

import models
from app import images, look
from app.export.onnx_graphs import WEIGHTS, Graphs, exported
from app.export.packing import packed, unpacked
from app.grounds import OWN
from app.limits import LIMITS
from app.painter import Painter
from models import strokes
from models.configuration import SMALLEST, STRIDE
from models.finish import enlargement, faces, grain, outlines, registration, simplification, tone
from models.measures import LUMA
from models.periodic import SIDE
from models.whole_file import writing_whole

VERSION = 1

# What app/site/painter.js does before and after the network, in this order.
PAGE_FILTERS = (
    "Simplification",
    "Flattening",
    "Registration",
    "Faces",
    "Enlargement",
    "Tint",
    "Tone",
    "Grain",
    "Outlines",
)
CANVAS_LEVELS = 32  # of what is faint already: a step is a fraction of a level of 255
THUMBNAIL = 160  # pixels, the longest side
QUALITY = 75  # of a thumbnail, until the page has painted the visitor's own photo there

# Levels of 255, on average. What packing costs is below one, but 2.9 for the drawn picture taken
# for a painting: a refinement was trained on nothing like it.
MOST_APART = 6.0


class ExportError(ValueError):
    """What was exported does not paint as the checkpoint does."""


def export(
    painter: Painter,
    out: Path,
    example: images.Picture | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> float:
    """Writes a painter's network and styles to a folder; see this module's head.

    Args:
        example: what the styles' thumbnails show; without one there are none.
        tell: called with a line on each step.

    Returns:
        By how many levels of 255 a picture differs from the checkpoint's on average, at most.

    Raises:
        ExportError: it differs by more than :data:`MOST_APART`.
        ValueError: a network that can't be exported.
        OSError: a file that can't be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    tell("exporting the graphs")
    graphs = exported(painter.network)
    weights, table = packed(graphs.weights)
    apart = difference(painter, graphs, unpacked(weights, table))
    if apart > MOST_APART:
        raise ExportError(f"what was exported paints {apart:.1f} levels of 255 apart")
    for name, content in graphs.files.items():
        _write(out / f"{name}.onnx", content)
    _write(out / "weights.bin", weights)
    canvas, canvas_table = packed(
        {"strokes": strokes._canvas()[0, 0].numpy(), "grain": grain.paper()[0, 0].numpy()},
        levels=CANVAS_LEVELS,
    )
    _write(out / "canvas.bin", canvas)
    styles = []
    for name, count in painter.codes.items():
        tell(f"writing the style {name}")
        codes = []
        for number in range(1, count + 1):
            code = painter.style(f"{name}:{number}")
            file = f"{name}-{number}"
            arrays = {f"code{i}": part[0].numpy() for i, part in enumerate(code.to("cpu").tensors)}
            content, code_table = packed(arrays, large=1 << 30)
            _write(out / f"{file}.bin", content)
            entry = {"file": f"{file}.bin", "table": code_table, "ground": asdict(code.ground)}
            if example is not None and number == 1:
                small = images.resize(painter.paint(example, code), THUMBNAIL)
                _image(small).save(out / f"{file}.webp", quality=QUALITY, method=6)
                entry["thumbnail"] = f"{file}.webp"
            codes.append(entry)
        styles.append({"name": name, "codes": codes})
    about = {
        "version": VERSION,
        "weights": {"file": "weights.bin", "path": WEIGHTS, "tensors": table},
        "canvas": {"file": "canvas.bin", "tensors": canvas_table, "side": SIDE},
        "styles": styles,
        "own": asdict(OWN),
        **numbers(painter),
    }
    _write(out / "model.json", json.dumps(about, separators=(",", ":")).encode())
    return apart


def numbers(painter: Painter) -> dict[str, Any]:
    """Every number that the page's own code goes by, from where it is defined."""
    config = painter.network.config
    return {
        "network": {
            "channels": list(config.hop_channels),
            "n": config.group_size,
            "reach": painter.network.reach,
            "strokes": config.strokes,
            "stride": STRIDE,
            "smallest": SMALLEST,
        },
        "ground": {
            each.name: {
                "by": each.metadata["scaled_by"],
                "more": each.metadata["more"],
                "most": each.metadata["range"][1],
            }
            for each in fields(models.Ground)
        },
        "options": {name: _shown(option.metadata) for name, option in look.OPTIONS.items()},
        "own_side": look.OWN_SIDE,
        "limits": {each.name: getattr(LIMITS, each.name) for each in fields(LIMITS)},
        "luma": list(LUMA),
        "simplification": {"steps": simplification.STEPS, "reach": simplification.REACH},
        "enlargement": {
            "radius": enlargement.RADIUS,
            "edges": enlargement.EDGES,
            "reach": enlargement.REACH,
        },
        "registration": {
            "cell": registration.CELL,
            "radius": registration.RADIUS,
            "edges": registration.EDGES,
            "rim": registration.RIM,
            "reach": registration.REACH,
        },
        "tone": {
            "cell": tone.CELL,
            "radius": tone.RADIUS,
            "edges": tone.EDGES,
            "reach": tone.REACH,
        },
        "grain": {"enlarged": grain.ENLARGED},
        "outlines": {
            "width": outlines.WIDTH,
            "around": outlines.AROUND,
            "steep": outlines.STEEP,
            "length": outlines.LENGTH,
            "half": outlines.HALF,
            "samples": outlines.SAMPLES,
            "spacing": outlines.SPACING,
            "faintest": outlines.FAINTEST,
            "contrast": outlines.CONTRAST,
            "reach": outlines.REACH,
        },
        "faces": {
            "blue": list(faces.BLUE),
            "red": list(faces.RED),
            "soft": faces.SOFT,
            "darkest": faces.DARKEST,
            "dark_soft": faces.DARK_SOFT,
            "little": faces.LITTLE,
            "enough": faces.ENOUGH,
            "cell": faces.CELL,
            "around": faces.AROUND,
            "complexion": faces.COMPLEXION,
            "own": faces.OWN,
            "fine": faces.FINE,
            "radius": faces.RADIUS,
            "edges": faces.EDGES,
            "counted": faces.COUNTED,
            "read": faces.READ,
        },
        "strokes": {"flat": strokes.FLAT, "block": strokes.BLOCK},
    }


def _image(picture: images.Picture) -> Image.Image:
    return Image.fromarray(images.flatten(picture).rgb)


def difference(painter: Painter, graphs: Graphs, weights: dict[str, np.ndarray]) -> float:
    """By how many levels of 255 a picture of the graphs is apart from the network's, at most.

    On average of its pixels, with packed weights, of a drawn picture, for every style's first code
    and for the picture's own.
    """
    network = painter.network
    run = Runner(graphs, weights)
    picture = _drawn(96, 128)
    content = run.encoder(picture)
    own = network.encode_style(picture)
    codes = [painter.style(name) for name in painter.style_names]
    code = [torch.from_numpy(part) for part in run.code_of(picture)]
    pairs = [(each, list(each.tensors)) for each in codes] + [(own, code)]
    apart = 0.0
    for wanted, given in pairs:
        with torch.no_grad():
            right = network.generate(network.encode_content(picture), wanted)
        mine = run.generator(content, given)[0]
        apart = max(apart, 127.5 * float(np.abs(mine - right.numpy()).mean()))
    return apart


class Runner:
    """Graphs in onnxruntime, on the CPU.

    Args:
        weights: in the order of the graphs' own.
    """

    def __init__(self, graphs: Graphs, weights: dict[str, np.ndarray]) -> None:
        self._blob = b"".join(values.tobytes() for values in weights.values())
        self._graphs = graphs
        self._sessions: dict[str, onnxruntime.InferenceSession] = {}

    def _session(self, name: str) -> onnxruntime.InferenceSession:
        if name not in self._sessions:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3  # no notes on what it leaves out of a graph
            options.intra_op_num_threads = torch.get_num_threads()
            options.add_external_initializers_from_files_in_memory(
                [WEIGHTS], [self._blob], [len(self._blob)]
            )
            self._sessions[name] = onnxruntime.InferenceSession(
                self._graphs.files[name], options, providers=["CPUExecutionProvider"]
            )
        return self._sessions[name]

    def encoder(self, photo: torch.Tensor) -> np.ndarray:
        """Content features of photos (B, 3, H, W)."""
        return self._session("encoder").run(None, {"photo": photo.numpy()})[0]

    def generator(
        self,
        content: np.ndarray,
        code: list[torch.Tensor],
        strength: float = 1.0,
        held: list[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """Pictures, and what each hop has read; held: what hops read instead."""
        given = held or [np.zeros(part.shape, np.float32) for part in code]
        return self._session("generator").run(
            None,
            {
                "content": content,
                "strength": np.array([strength], np.float32),
                "held": np.array([held is not None], np.float32),
                **{f"code{i}": part.numpy() for i, part in enumerate(code)},
                **{f"given{i}": part for i, part in enumerate(given)},
            },
        )

    def code_of(self, painting: torch.Tensor) -> list[np.ndarray]:
        """The code of a painting (1, 3, H, W) whose sides are multiples of the stride."""
        zeros = self._shapes()
        read = self.generator(self.encoder(painting), zeros, 0.0)[1:]
        return self._session("coder").run(None, {f"read{i}": part for i, part in enumerate(read)})

    def _shapes(self) -> list[torch.Tensor]:
        inputs = self._session("generator").get_inputs()
        return [torch.zeros(i.shape) for i in inputs if i.name.startswith("code")]


def _drawn(height: int, width: int) -> torch.Tensor:
    """A picture with areas, edges and grain: (1, 3, height, width) in [-1, 1]."""
    draw = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 3, height // 16, width // 16, generator=draw)
    areas = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")
    return (areas * 2 - 1 + 0.05 * torch.randn(areas.shape, generator=draw)).clamp(-1, 1)


def _shown(about: Any) -> dict[str, Any]:
    """An option's metadata, as JSON can hold it."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in about.items()}


def _write(path: Path, content: bytes) -> None:
    with writing_whole(path, durable=False) as place:
        place.write_bytes(content)
