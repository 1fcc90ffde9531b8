"""Converting a model of OpenVINO's own, and comparing ONNX Runtime with OpenVINO's CPU plugin on the same data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import openvino
from openvino import opset1

from ortconv.api import Conversion, conversion
from ortconv.builder import Semantics
from ortconv.errors import ConversionError, ConversionErrors

__all__ = [
    "Feed",
    "Refusal",
    "Row",
    "assert_close",
    "assert_refused",
    "check",
    "check_row",
    "model_of",
    "numbers",
    "run_onnx",
    "run_openvino",
]

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
    """

    name: str
    build: Callable[..., Any]
    feeds: Sequence[Feed]
    bound: float = 4
    semantics: Semantics = "spec"
    emits: Sequence[str] | None = None

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


def run_openvino(model: openvino.Model, feeds: Sequence[Feed]) -> list[list[np.ndarray]]:
    """Runs a model on OpenVINO's CPU plugin, computing in float32; one list of outputs per feed."""
    compiled = _core().compile_model(model, "CPU", _CONFIGURATION)
    return [[np.array(array) for array in compiled(list(feed)).values()] for feed in feeds]


def run_onnx(converted: Conversion, feeds: Sequence[Feed]) -> list[list[np.ndarray]]:
    """Runs a converted model on ONNX Runtime's CPU provider, without our plugin; one list of outputs per feed."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        converted.to_proto().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    return [list(session.run(None, dict(zip(names, feed, strict=True)))) for feed in feeds]


def assert_close(actual: np.ndarray, expected: np.ndarray, bound: float, what: str = "") -> None:
    """Asserts type, shape and values.

    Args:
        actual: What was computed.
        expected: What is right.
        bound: Largest difference allowed, in units of the last place of the largest finite magnitude expected; integers
            and booleans must be equal whatever the bound.
        what: Shown when it fails.
    """
    assert actual.dtype == expected.dtype, f"{what}: type {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if actual.dtype.kind in "iub" or bound == 0:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    unit = float(np.finfo(np.float32 if actual.dtype == np.float64 else actual.dtype).eps)
    largest = float(finite.max(initial=0.0))
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=0, atol=bound * unit * largest, err_msg=what
    )


def check(
    model: openvino.Model,
    *feeds: Feed,
    bound: float = 4,
    semantics: Semantics = "spec",
    opset: int | None = None,
) -> Conversion:
    """Converts a model and asserts that ONNX Runtime computes what OpenVINO's CPU plugin does.

    Args:
        model: The model.
        *feeds: Data; several of different sizes for a model with dynamic dims.
        bound: See `assert_close`; for each float output.
        semantics: See `ortconv.convert`.
        opset: See `ortconv.convert`.

    Returns:
        The conversion, for further assertions.
    """
    converted = conversion(model, semantics=semantics, opset=opset)
    actual, expected = run_onnx(converted, feeds), run_openvino(model, feeds)
    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_close(mine, other, bound, f"feed {number}, output {index}")
    return converted


def check_row(row: Row) -> None:
    """Checks a row, with static dims and, where its feeds differ, with dynamic ones."""
    converted = check(model_of(row.build, row.feeds[:1]), row.feeds[0], bound=row.bound, semantics=row.semantics)
    if row.emits is not None:
        assert sorted(node.op_type for node in converted.model.graph) == sorted(row.emits)
    if len(row.feeds) > 1:
        check(model_of(row.build, row.feeds), *row.feeds, bound=row.bound, semantics=row.semantics)


def model_of(
    build: Callable[..., Any], feeds: Sequence[Feed], shapes: Sequence[Sequence[int]] | None = None
) -> openvino.Model:
    """Builds a model of one expression over Parameters like the arrays of the feeds."""
    parameters = []
    for index, arrays in enumerate(zip(*feeds, strict=True)):
        shape = [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*(a.shape for a in arrays), strict=True)]
        declared = shape if shapes is None else list(shapes[index])
        parameters.append(opset1.parameter(declared, dtype=openvino.Type(arrays[0].dtype)))
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


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0, low: float = -4, high: float = 4) -> np.ndarray:
    """Returns random data: floats spread evenly from low to high, integers from low to high, or booleans."""
    generator = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype).kind
    if kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return generator.integers(max(low, np.iinfo(dtype).min), high, shape, endpoint=True).astype(dtype)
    return generator.uniform(low, high, shape).astype(dtype)
