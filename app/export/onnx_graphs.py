"""The graphs as ONNX, through torch's own exporter, their weights apart.

What the graphs share of weights lies in one file, and a graph's own file is a few tens of KB. The
weights' offsets are those of float32; how they are packed on their way to the page is another
matter, see :mod:`app.export.packing`.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import NodeProto, external_data_helper, helper, numpy_helper
from torch import nn
from torch.export import Dim

import models
from app.export.graphs import ITERATIONS, Coder, Encoder, Generator
from models.coloring import code_shapes
from models.configuration import STRIDE

OPSET = 21
WEIGHTS = "weights"  # the name by which a graph asks for the file of its weights
SMALLEST_APART = 1024  # numbers; what is smaller stays in its graph

# Content that is at least as large as a reflected border needs; the exporter tries these sizes.
_LEAST, _MOST, _TRIED = 2, 1 << 14, (16, 12)


@dataclass(frozen=True)
class Graphs:
    """Graphs, each as the bytes of an ONNX file, and the weights that they ask for.

    Attributes:
        files: "encoder", "generator" and "coder".
        weights: by name, float32, in the order in which they lie one after the other.
    """

    files: dict[str, bytes]
    weights: dict[str, np.ndarray]


def exported(network: models.Repainter) -> Graphs:
    """A network's graphs; see :mod:`app.export.graphs` for what goes in and comes out.

    Inputs and outputs that are lists are called by their number: "code0", "code1", ...

    Raises:
        ValueError: a network of another coloring than ``statistics``.
    """
    config, n = network.config, network.config.group_size
    if config.coloring != "statistics":
        raise ValueError(
            f"only networks of the coloring 'statistics' can be exported, not {config.coloring!r}"
        )
    code = [torch.zeros(shape) for shape in code_shapes(config)]
    numbers = range(len(code))
    rows, columns, batch = (
        Dim("rows", min=_LEAST, max=_MOST),
        Dim("columns", min=_LEAST, max=_MOST),
        Dim("batch"),
    )
    content = torch.zeros(2, config.channels, *_TRIED)
    photo = torch.zeros(2, 3, *(STRIDE * side for side in _TRIED))
    whole = {0: batch, 2: STRIDE * rows, 3: STRIDE * columns}
    fixed = [None] * len(code)
    made = {
        "encoder": _exported(Encoder(network), (photo,), ["photo"], ["content"], (whole,), n),
        "generator": _exported(
            Generator(network),
            (content, torch.ones(1), torch.zeros(1), code, [part.clone() for part in code]),
            ["content", "strength", "held", *_named("code", numbers), *_named("given", numbers)],
            ["picture", *_named("read", numbers)],
            ({0: batch, 2: rows, 3: columns}, None, None, fixed, fixed),
            n,
        ),
        "coder": _exported(
            Coder(network), (code,), _named("read", numbers), _named("code", numbers), (fixed,), n
        ),
    }
    weights: dict[str, np.ndarray] = {}
    for model in made.values():
        _take_weights(model, weights)
    return Graphs({name: model.SerializeToString() for name, model in made.items()}, weights)


def _named(word: str, numbers: range) -> list[str]:
    return [f"{word}{number}" for number in numbers]


def _exported(
    module: nn.Module,
    arguments: tuple[Any, ...],
    inputs: list[str],
    outputs: list[str],
    shapes: tuple[Any, ...],
    n: int,
) -> onnx.ModelProto:
    # The exporter tells of each of its steps, and warns of names that it makes up for sizes.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module.eval(),
            arguments,
            dynamo=True,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=shapes,
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None  # as it is with dynamo
    model = program.model_proto
    _put_roots(model, n)
    # Where the exporter's steps came from: ten times as much as the graph.
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    return model


def _put_roots(model: onnx.ModelProto, n: int) -> None:
    """Puts Newton-Schulz iterations in place of what stands for them; see `graphs.roots`.

    Args:
        n: rows of each matrix.
    """
    nodes, stand_ins = list(model.graph.node), {"Atan", "Asin"}
    if not stand_ins & {node.op_type for node in nodes}:
        return
    constants = {"eye": np.eye(n), "eye15": 1.5 * np.eye(n), "half": np.array(0.5)}
    model.graph.initializer.extend(
        numpy_helper.from_array(values.astype(np.float32), f"roots_{name}")
        for name, values in constants.items()
    )
    model.graph.initializer.append(
        numpy_helper.from_array(np.array([-2, -1], np.int64), "roots_axes")
    )
    del model.graph.node[:]
    done: dict[str, tuple[str, str]] = {}  # a matrix's root and inverse root
    for node in nodes:
        if node.op_type not in stand_ins:
            model.graph.node.append(node)
            continue
        (matrix,) = node.input
        if matrix not in done:
            done[matrix] = f"{matrix}_root", f"{matrix}_inverse"
            model.graph.node.extend(_schulz(matrix, *done[matrix]))
        found = done[matrix][0 if node.op_type == "Atan" else 1]
        model.graph.node.append(helper.make_node("Identity", [found], list(node.output)))


def _schulz(matrix: str, root: str, inverse: str) -> list[NodeProto]:
    """The nodes of `graphs.roots`, from the matrix of that name to the two results of theirs."""
    made: list[NodeProto] = []

    def put(kind: str, *given: str, to: str = "", **attributes: Any) -> str:
        name = to or f"{matrix}_schulz{len(made)}"
        made.append(helper.make_node(kind, list(given), [name], **attributes))
        return name

    square = put("ReduceSum", put("Mul", matrix, matrix), "roots_axes", keepdims=1)
    norm = put("Sqrt", square)
    Y, Z = put("Div", matrix, norm), "roots_eye"
    for step in range(ITERATIONS):
        product = put("MatMul", Z, Y) if step else Y
        T = put("Sub", "roots_eye15", put("Mul", product, "roots_half"))
        Y, Z = put("MatMul", Y, T), put("MatMul", T, Z) if step else T
    scale = put("Sqrt", norm)
    put("Mul", Y, scale, to=root)
    put("Div", Z, scale, to=inverse)
    return made


def _take_weights(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> None:
    """Moves a graph's large tensors to ``weights``; equal ones are kept once."""
    starts, start = {}, 0
    for name, kept in weights.items():
        starts[name], start = start, start + kept.nbytes
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < SMALLEST_APART:
            continue
        same = (name for name, kept in weights.items() if np.array_equal(kept, values))
        found = next(same, None)
        name = found or f"{tensor.name}#{len(weights)}"
        if found is None:
            weights[name] = values
            starts[name], start = start, start + values.nbytes
        external_data_helper.set_external_data(
            tensor, WEIGHTS, offset=starts[name], length=values.nbytes
        )
        tensor.ClearField("raw_data")
