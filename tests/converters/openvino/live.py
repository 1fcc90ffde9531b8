"""Converting a model of OpenVINO's own, and comparing ONNX Runtime with OpenVINO's CPU plugin on the same data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import onnxruntime
import openvino
import pytest
from openvino import opset1

from ortconv.api import Conversion, conversion
from ortconv.errors import ConversionError, ConversionErrors
from ortconv.options import Semantics, Target
from ortconv.runtime.session import InferenceSession
from tests.processor import HAS_AVX512, WITHOUT_AVX512

__all__ = [
    "NUMPY_TYPES",
    "Feed",
    "Refusal",
    "Row",
    "assert_close",
    "assert_refused",
    "check",
    "check_row",
    "ints",
    "model_of",
    "numbers",
    "run_onnx",
    "run_openvino",
]

NUMPY_TYPES = (
    *("float32", "float64", "float16", "int8", "uint8", "int16"),
    *("uint16", "int32", "uint32", "int64", "uint64", "bool"),
)
"""The element types that numpy and OpenVINO both have, by numpy's names."""

Feed = Sequence[np.ndarray]
"""One array for each Parameter, in order."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A variant of an op, in a table of tests.

    Attributes:
        name: What it shows, as a sentence.
        build: Makes the node or output from one Parameter per array of a feed.
        feeds: Data for its Parameters. The dims in which feeds differ are dynamic.
        bound: See `assert_close`.
        semantics: See `ortconv.convert`.
        emits: ONNX op types that the conversion must consist of, in any order; None to leave that open.
        avx512: Whether OpenVINO's CPU plugin computes this only on processors with AVX-512.
    """

    name: str
    build: Callable[..., Any]
    feeds: Sequence[Feed]
    bound: float = 4
    semantics: Semantics = "spec"
    emits: Sequence[str] | None = None
    avx512: bool = False

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A variant that must be refused, in a table of tests.

    Attributes:
        name: What it shows.
        build: See `Row`.
        feed: Arrays whose types and shapes the Parameters get; -1 stands for a dynamic dim in `shapes`.
        error: Class of the error.
        fields: Its attributes, by name; a string need only be contained.
        shapes: Declared shapes, where they are not those of the arrays.
        opset: See `ortconv.convert`.
    """

    name: str
    build: Callable[..., Any]
    feed: Feed
    error: type[ConversionError]
    fields: Mapping[str, object]
    shapes: Sequence[Sequence[int]] | None = None
    opset: int = 21

    def __str__(self) -> str:
        return self.name


@functools.cache
def _core() -> openvino.Core:
    return openvino.Core()


_CONFIGURATION = {
    "INFERENCE_PRECISION_HINT": "f32",
    "INFERENCE_NUM_THREADS": 1,
    # By default the plugin rounds what is multiplied by compressed weights to 8 bits.
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
}


_ELEMENTS = {
    np.dtype(ml_dtypes.bfloat16): (openvino.Type.bf16, np.uint16),
    np.dtype(ml_dtypes.float8_e4m3fn): (openvino.Type.f8e4m3, np.uint8),
    np.dtype(ml_dtypes.float8_e5m2): (openvino.Type.f8e5m2, np.uint8),
    np.dtype(ml_dtypes.int4): (openvino.Type.i4, None),
    np.dtype(ml_dtypes.uint4): (openvino.Type.u4, None),
}
"""Types that numpy lacks: OpenVINO's, and the type of the same bits; None where two elements share a byte."""


def run_openvino(model: openvino.Model, feeds: Sequence[Feed]) -> list[list[np.ndarray]]:
    """Runs a model on OpenVINO's CPU plugin, computing in float32; one list of outputs per feed."""
    request = _core().compile_model(model, "CPU", _CONFIGURATION).create_infer_request()
    results = []
    for feed in feeds:
        request.infer([_tensor(array) for array in feed])
        results.append([_array(tensor) for tensor in request.output_tensors])
    return results


def _tensor(array: np.ndarray) -> np.ndarray | openvino.Tensor:
    if array.dtype not in _ELEMENTS:
        return array
    element, bits = _ELEMENTS[array.dtype]
    if bits is not None:
        return openvino.Tensor(np.ascontiguousarray(array).view(bits), array.shape, element)
    flat = array.astype(np.int8).ravel().view(np.uint8) & 15
    low, high = flat[0::2], np.zeros_like(flat[0::2])
    high[: flat.size // 2] = flat[1::2]
    return openvino.Tensor(low | high << 4, array.shape, element)


def _array(tensor: openvino.Tensor) -> np.ndarray:
    """Returns a copy of a tensor's data."""
    for dtype, (element, bits) in _ELEMENTS.items():
        if tensor.element_type == element:
            shape = list(tensor.shape)
            if bits is not None:
                return np.array(tensor.data).view(dtype).reshape(shape)
            packed = np.array(tensor.data).ravel().view(np.uint8)
            nibbles = np.stack([packed & 15, packed >> 4], axis=1).ravel()[: int(np.prod(shape))].astype(np.int8)
            return np.where(nibbles > ml_dtypes.iinfo(dtype).max, nibbles - 16, nibbles).astype(dtype).reshape(shape)
    return np.array(tensor.data)


def run_onnx(converted: Conversion, feeds: Sequence[Feed]) -> list[list[np.ndarray]]:
    """Runs a converted model on ONNX Runtime's CPU provider, without our plugin; one list of outputs per feed."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    model = converted.to_proto().SerializeToString()
    session = InferenceSession(model, options, providers=["CPUExecutionProvider"], backend="none")
    names = [each.name for each in session.get_inputs()]
    return [list(session.run(None, dict(zip(names, feed, strict=True)))) for feed in feeds]


def assert_close(actual: np.ndarray, expected: np.ndarray, bound: float, what: str = "") -> None:
    """Asserts type, shape and values.

    Args:
        actual: What was computed.
        expected: What is right.
        bound: Largest difference allowed, in units of the last place of the largest magnitude expected, or of the entry
            itself where that is near the limits of its type; integers and booleans, and floats of eight bits, must be
            equal whatever the bound.
        what: Shown when it fails.
    """
    assert actual.dtype == expected.dtype, f"{what}: type {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if actual.dtype.kind in "iub" or actual.dtype.itemsize == 1 or bound == 0:
        wide = [each.astype(np.float32) if each.dtype in _ELEMENTS else each for each in (actual, expected)]
        np.testing.assert_array_equal(*wide, err_msg=what)
        return
    info = ml_dtypes.finfo(np.float32 if actual.dtype == np.float64 else actual.dtype)
    wide = expected.astype(np.float64)
    magnitudes = np.where(np.isfinite(wide), np.abs(wide), 0)
    ordinary = magnitudes <= float(info.max) / 8
    largest = magnitudes[ordinary].max(initial=0.0)
    for part, allowed in ((ordinary, {"rtol": 0, "atol": largest}), (~ordinary, {"rtol": 1, "atol": 0})):
        tolerance = {name: bound * float(info.eps) * value for name, value in allowed.items()}
        np.testing.assert_allclose(actual.astype(np.float64)[part], wide[part], **tolerance, err_msg=what)


def check(
    model: openvino.Model,
    *feeds: Feed,
    bound: float = 4,
    semantics: Semantics = "spec",
    opset: int | None = None,
    target: Target = "auto",
) -> Conversion:
    """Converts a model and asserts that ONNX Runtime computes what OpenVINO's CPU plugin does.

    And that the file holds no constant that nothing uses, and no shape without a type, which onnx_ir would not write.

    Args:
        model: The model.
        *feeds: Data; several of different sizes for a model with dynamic dims.
        bound: See `assert_close`; for each float output.
        semantics: See `ortconv.convert`.
        opset: See `ortconv.convert`.
        target: See `ortconv.convert`.

    Returns:
        The conversion, for further assertions.
    """
    converted = conversion(model, semantics=semantics, opset=opset, target=target)
    told = [text for step in converted.steps for text in (*step.warnings, *step.notes)]
    assert [text for text in told if "is ignored" in text] == [], "OpenVINO writes the attributes that its ops have"
    _check_values(converted.model.graph)
    actual, expected = run_onnx(converted, feeds), run_openvino(model, feeds)
    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_close(mine, other, bound, f"feed {number}, output {index}")
    return converted


def _check_values(graph: ir.Graph) -> None:
    constants = graph.initializers.values()
    assert [value.name for value in constants if not value.uses() and not value.is_graph_output()] == []
    for node in ir.traversal.RecursiveGraphIterator(graph):
        assert [value.name for value in node.outputs if value.shape is not None and value.type is None] == [], node.name
        if node.op_type == "DequantizeLinear" and "block_size" not in node.attributes:
            # Without, ONNX Runtime before 1.28 takes the integers to be unsigned, and moves them past a Reshape so.
            assert node.inputs[0].dtype not in (ir.DataType.INT4, ir.DataType.INT8) or len(node.inputs) == 3, node.name


def check_row(row: Row, target: Target = "auto") -> None:
    """Checks a row, with static dims and, where its feeds differ, with dynamic ones; `target` as of `check`."""
    if row.avx512 and not HAS_AVX512:
        pytest.skip(WITHOUT_AVX512)
    how: dict[str, Any] = {"bound": row.bound, "semantics": row.semantics, "target": target}
    converted = check(model_of(row.build, row.feeds[:1]), row.feeds[0], **how)
    if row.emits is not None:
        assert sorted(node.op_type for node in converted.model.graph) == sorted(row.emits)
    if len(row.feeds) > 1:
        check(model_of(row.build, row.feeds), *row.feeds, **how)


def model_of(
    build: Callable[..., Any], feeds: Sequence[Feed], shapes: Sequence[Sequence[int]] | None = None
) -> openvino.Model:
    """Builds a model of one expression over Parameters like the arrays of the feeds."""
    parameters = []
    for index, arrays in enumerate(zip(*feeds, strict=True)):
        shape = [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*(a.shape for a in arrays), strict=True)]
        declared = shape if shapes is None else list(shapes[index])
        element, _ = _ELEMENTS.get(arrays[0].dtype, (None, None))
        parameters.append(opset1.parameter(declared, dtype=element or openvino.Type(arrays[0].dtype)))
    built = build(*parameters)
    outputs = list(built) if isinstance(built, list | tuple) else [built]
    return openvino.Model([_output(output) for output in outputs], parameters)


def _output(built: Any) -> Any:
    return built.output(0) if isinstance(built, openvino.Node) else built


def assert_refused(refusal: Refusal) -> None:
    """Asserts that a variant is refused with one error that says what it must."""
    model = model_of(refusal.build, [refusal.feed], refusal.shapes)
    try:
        conversion(model, opset=refusal.opset)
    except ConversionErrors as group:
        (error,) = group.exceptions
    else:
        raise AssertionError("the conversion was not refused")
    assert type(error) is refusal.error, repr(error)
    for field, value in refusal.fields.items():
        found = getattr(error, field)
        assert value in found if isinstance(value, str) else value == found, f"{field}: {found!r}, expected {value!r}"
    assert error.node is not None
    assert error.node.op_type in str(error)


def ints(*values: int, dtype: type = np.int64) -> np.ndarray:
    """Returns integers as a vector."""
    return np.array(values, dtype)


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0, low: float = -4, high: float = 4) -> np.ndarray:
    """Returns random data: floats spread evenly from low to high, integers from low to high, or booleans."""
    generator = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype).kind
    if kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return generator.integers(max(low, np.iinfo(dtype).min), high, shape, endpoint=True).astype(dtype)
    return generator.uniform(low, high, shape).astype(dtype)
