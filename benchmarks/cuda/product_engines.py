"""The engines that multiply by compressed weights on the GPU, each in a graph of as many matrices as no cache holds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.answers import NUMPY
from benchmarks.cuda.answers import stored
from benchmarks.cuda.engines import Prepared, bind, captured, provider, session_options
from benchmarks.engines import Unsupported

__all__ = ["BITS", "ENGINES", "Layer", "Weights"]

Array = npt.NDArray[Any]

BITS = {"u4": 4, "i4": 4, "i8": 8}
"""Types of codes by name -> their bits."""

_BYTES = 256 << 20
_MOST = 64
_SPLIT = 256
"""The largest block_size that MatMulNBits takes."""


@dataclasses.dataclass(frozen=True)
class Layer:
    """A product by a matrix of compressed weights; unsigned ones have zero points.

    Attributes:
        codes: One of `BITS`.
        block: How many of a row share a scale; 0 for all of them.
        outputs: Rows of the matrix.
        inputs: Its columns.
        rows: Rows of data.
    """

    codes: str
    block: int
    outputs: int
    inputs: int
    rows: int

    @property
    def name(self) -> str:
        """What a table shows."""
        kind = f"{self.codes} {f'blocks of {self.block}' if self.block else 'one scale a row'}"
        return f"{kind}, {self.outputs} x {self.inputs}, {self.rows} rows"

    @property
    def flops(self) -> int:
        """Useful operations."""
        return 2 * self.rows * self.outputs * self.inputs

    @property
    def blocks(self) -> int:
        """Scales of a row."""
        return self.inputs // (self.block or self.inputs)

    def bytes_moved(self, width: int) -> int:
        """Returns the bytes that have to be moved where a float has `width` of them."""
        scales = self.outputs * self.blocks * (8 * width + (BITS[self.codes] if self.codes[0] == "u" else 0))
        codes = self.outputs * self.inputs * BITS[self.codes]
        return (codes + scales) // 8 + width * self.rows * (self.inputs + self.outputs)

    @property
    def matrices(self) -> int:
        """How many matrices there are, one for each run of a graph."""
        return max(1, min(_MOST, math.ceil(_BYTES * 8 / (self.outputs * self.inputs * BITS[self.codes]))))


@dataclasses.dataclass(frozen=True)
class Weights:
    """A matrix; `points` is None where all zero points are 0."""

    codes: Array
    scales: Array
    points: Array | None

    @classmethod
    def draw(cls, layer: Layer, dtype: str) -> Weights:
        """Draws a matrix whose products are about as large as the data."""
        random = np.random.default_rng(0)
        bits, shape = BITS[layer.codes], (layer.outputs, layer.blocks)
        low = 0 if layer.codes[0] == "u" else -(1 << (bits - 1))
        codes = random.integers(low, low + (1 << bits), (layer.outputs, layer.inputs), np.int16)
        points = random.integers(low, low + (1 << bits), shape, np.int16) if layer.codes[0] == "u" else None
        scales = (random.random(shape) + 0.5) / ((1 << bits) * math.sqrt(layer.inputs))
        return cls(codes, scales.astype(NUMPY[stored(dtype)]), points)

    def dense(self) -> Array:
        """Returns the matrix in float64."""
        repeats = self.codes.shape[1] // self.scales.shape[1]
        shifts = 0 if self.points is None else self.points.repeat(repeats, 1)
        return (self.codes - shifts) * self.scales.astype(np.float64).repeat(repeats, 1)


def _ours(layer: Layer, dtype: str, x: Array, weights: Weights, graph: bool) -> Prepared:
    from onnx import helper

    import ortconv
    from ortconv.opset.domain import DOMAIN
    from ortconv.runtime import cuda

    names = ["X", "D{}", "S{}", *(["Z{}"] if weights.points is not None else [])]
    at: dict[str, Any] = {"block_size": layer.block or layer.inputs}
    model = _model(
        layer, dtype, x, weights, lambda name: helper.make_node("MatMulCompressed", name(names), name(["Y{}"]),
                                                                domain=DOMAIN, **at),
    )  # fmt: skip
    options = session_options()
    options.add_session_config_entry(cuda.TF32_ENTRY, str(int(dtype == "tf32")))
    session = ortconv.InferenceSession(model, options, providers=[provider(dtype, graph)])
    return bind(session, x, [layer.rows, layer.outputs])


def _standard(layer: Layer, dtype: str, x: Array, weights: Weights, graph: bool) -> Prepared:
    from onnx import helper

    names = ["D{}", "S{}", *(["Z{}"] if weights.points is not None else [])]
    at: dict[str, Any] = {"axis": 1, "block_size": layer.block or layer.inputs}

    def nodes(name: Any) -> list[Any]:
        return [
            helper.make_node("DequantizeLinear", name(names), name(["W{}"]), **at),
            # Behind a Reshape, since ONNX Runtime makes MatMulNBits of the others.
            helper.make_node("Shape", name(["W{}"]), name(["N{}"])),
            helper.make_node("Reshape", name(["W{}", "N{}"]), name(["R{}"])),
            helper.make_node("Transpose", name(["R{}"]), name(["T{}"]), perm=[1, 0]),
            helper.make_node("MatMul", ["X", *name(["T{}"])], name(["Y{}"])),
        ]

    return bind(_session(_model(layer, dtype, x, weights, nodes), dtype, graph), x, [layer.rows, layer.outputs])


def _n_bits(layer: Layer, dtype: str, x: Array, weights: Weights, graph: bool) -> Prepared:
    from onnx import helper

    if not layer.block or layer.block > _SPLIT or BITS[layer.codes] != 4:
        raise Unsupported("MatMulNBits is for blocks of 4 bits")
    names = ["X", "B{}", "S{}", *(["P{}"] if weights.points is not None else [])]
    at: dict[str, Any] = {"K": layer.inputs, "N": layer.outputs, "bits": 4, "block_size": layer.block}
    model = _model(
        layer, dtype, x, weights, lambda name: helper.make_node("MatMulNBits", name(names), name(["Y{}"]),
                                                                domain="com.microsoft", **at),
    )  # fmt: skip
    return bind(_session(model, dtype, graph), x, [layer.rows, layer.outputs])


def _session(model: bytes, dtype: str, graph: bool) -> Any:
    import onnxruntime

    from ortconv.runtime import cuda

    cuda.load_libraries(onnxruntime)
    try:
        return onnxruntime.InferenceSession(
            model, session_options(), providers=[provider(dtype, graph)], enable_fallback=0
        )
    except Exception as error:  # ONNX Runtime's own exception classes have no common base
        if "NOT_IMPLEMENTED" in str(error) or "fallback" in str(error):
            raise Unsupported("the CUDA provider has no such kernel") from error
        raise


def _model(layer: Layer, dtype: str, x: Array, weights: Weights, node: Callable[[Any], Any]) -> bytes:
    """Returns a model of many products of the same data; `node(name)` makes one, with names that are filled in."""
    from onnx import TensorProto, helper

    from ortconv.opset.domain import DOMAIN

    kind = {"u4": TensorProto.UINT4, "i4": TensorProto.INT4, "i8": TensorProto.INT8}[layer.codes]
    element = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}.get(dtype, TensorProto.FLOAT)
    bits = BITS[layer.codes]
    tensors = {
        "D{}": (kind, weights.codes.shape, _packed(weights.codes, bits)),
        "S{}": (element, weights.scales.shape, weights.scales.tobytes()),
    }
    if bits == 4:
        shifted = weights.codes + (8 if layer.codes == "i4" else 0)
        split = (layer.outputs, layer.blocks, (layer.block or layer.inputs) // 2)
        tensors["B{}"] = (TensorProto.UINT8, split, _packed(shifted, 4))
    if weights.points is not None:
        tensors["Z{}"] = (kind, weights.points.shape, _packed(weights.points, bits))
        odd = np.pad(weights.points, ((0, 0), (0, layer.blocks % 2)))
        tensors["P{}"] = (TensorProto.UINT8, (layer.outputs * -(-layer.blocks // 2),), _packed(odd, 4))
    nodes, initializers = [], []
    for run in range(layer.matrices):
        made = node(lambda names, run=run: [name.format(run) for name in names])
        made = made if isinstance(made, list) else [made]
        nodes += made
        wanted = {name for each in made for name in each.input}
        for name, (code, shape, raw) in tensors.items():
            if name.format(run) in wanted:
                initializers.append(helper.make_tensor(name.format(run), code, shape, raw, raw=True))
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("X", element, list(x.shape))],
        [
            helper.make_tensor_value_info(f"Y{run}", element, [layer.rows, layer.outputs])
            for run in range(layer.matrices)
        ],
        initializers,
    )
    imports = [("", 21), (DOMAIN, 1), ("com.microsoft", 1)]
    opsets = [helper.make_opsetid(domain, version) for domain, version in imports]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return model


def _packed(values: Array, bits: int) -> bytes:
    """Returns integers as a tensor holds them."""
    flat = values.astype(np.uint8).ravel()
    if bits == 8:
        return flat.tobytes()
    return ((flat[::2] & 15) | flat[1::2] << 4).tobytes()


def _torch(layer: Layer, dtype: str, x: Array, weights: Weights, graph: bool) -> Prepared:
    import torch

    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    element = {"f16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
    source = torch.from_numpy(x.astype(np.float32)).cuda().to(element)
    dense = torch.from_numpy(weights.dense()).cuda().to(element)
    matrices = [dense.clone() for _ in range(layer.matrices)]
    return captured(lambda: [source @ each.t() for each in matrices], x.dtype, graph)


ENGINES: dict[str, Callable[[Layer, str, Array, Weights, bool], Prepared]] = {
    "DequantizeLinear + MatMul": _standard,
    "MatMulNBits": _n_bits,
    "torch, dense": _torch,
    "ours": _ours,
}
"""By name; torch multiplies by matrices that are floats, which take up to eight times the memory."""
