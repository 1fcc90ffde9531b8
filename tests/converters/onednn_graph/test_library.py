"""What is converted under runtime semantics against oneDNN itself, where it is installed: see `library`."""

from __future__ import annotations

import json
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ortconv
from ortconv.errors import SemanticsWarning
from tests.converters.onednn_graph import (
    library,
    test_convolution_family,
    test_interpolation,
    test_pooling,
    test_shared_graphs,
)
from tests.converters.onednn_graph.agreement import EPSILON, NAMES, assert_close
from tests.converters.onednn_graph.data import feeds
from tests.converters.onednn_graph.library import Library, RefusedError
from tests.converters.onednn_graph.one_op import build
from tests.converters.onednn_graph.references.call import DTYPES
from tests.converters.onednn_graph.references.interpreter import load
from tests.running import run

pytestmark = pytest.mark.skipif(not library.FOLDER, reason="ORTCONV_ONEDNN names no folder of libdnnl.so.3")

CASES = 60
Outputs = list[tuple[str, tuple[int, ...] | None]]


WRONG = {"maxpool_sum_relu_fusion.json": "adds its second operand in another order than in single ops"}
"""Sample graphs for which the library computes wrong numbers."""


@pytest.fixture(scope="module")
def onednn() -> Iterator[Library]:
    process = Library()
    yield process
    process.close()


@pytest.fixture(scope="module")
def fusing() -> Iterator[Library]:
    process = Library(fuse=True)
    yield process
    process.close()


def agrees(library: Library, kind: str, inputs: list[np.ndarray], outputs: Outputs, attributes: dict[str, Any]) -> bool:
    """Compares what is converted with the library; False where the library refuses."""
    given = {name: _spelled(name, value) for name, value in attributes.items()}
    graph = build(kind, inputs, outputs, given)
    feeds = dict(zip((tensor.id for tensor in graph.inputs), inputs, strict=True))
    try:
        results = library.run(json.loads(graph.to_json()), feeds)
    except RefusedError:
        return False
    model = ortconv.conversion(graph, semantics="runtime").to_proto()
    found = run(model, {f"x{i}": value for i, value in enumerate(inputs)}, "none")
    for tensor, value in zip(graph.outputs, found, strict=True):
        expected = results[tensor.id]
        coarsest = max(EPSILON.get(NAMES[x.dtype], 0) for x in (*inputs, expected))
        assert_close(value, expected, 16 * coarsest / EPSILON[NAMES[expected.dtype]], f"{kind} {attributes}")
    return True


def _spelled(name: str, value: Any) -> Any:
    """The library wants auto_pad in its own spelling."""
    if name != "auto_pad":
        return value
    return "None" if value.casefold() == "none" else value.upper()


@pytest.mark.parametrize("kind", ["AvgPool", "MaxPool", "AvgPoolBackward", "MaxPoolBackward"])
def test_pools(onednn: Library, kind: str) -> None:
    agreed = 0
    for seed in range(CASES):
        case = test_pooling.Case(kind, seed)
        inputs, outputs, attributes = [case.src], [(case.dtype, None)], dict(case.attributes)
        if kind.endswith("Backward"):
            gradient = case.gradient(kind.removesuffix("Backward"))
            inputs = [case.src, gradient] if kind.startswith("Max") else [gradient]
            attributes |= {} if kind.startswith("Max") else {"src_shape": case.shape}
            outputs = [(case.dtype, case.shape)]
        agreed += agrees(onednn, kind, inputs, outputs, attributes)
    assert agreed > CASES // 3


@pytest.mark.parametrize("mode", test_interpolation.MODES)
@pytest.mark.parametrize("kind", ["Interpolate", "InterpolateBackward"])
def test_interpolation_modes(onednn: Library, kind: str, mode: str) -> None:
    agreed = 0
    for seed in range(CASES):
        case = test_interpolation.Case(mode, seed)
        # The library has no align_corners, and takes one spatial axis of size 1 for another layout.
        if case.how not in ("sizes", "scales") or 1 in case.small:
            continue
        attributes = {**case.attributes, "coordinate_transformation_mode": "half_pixel"}
        inputs, outputs = [case.data(case.small)], [(case.dtype, case.large)]
        if kind.endswith("Backward"):
            inputs, outputs = [*inputs, case.data(case.large)], [(case.dtype, case.small)]
        agreed += agrees(onednn, kind, inputs, outputs, attributes)
    assert agreed > CASES // 10


@pytest.mark.parametrize("kind", test_convolution_family.ALL)
def test_convolutions(onednn: Library, kind: str) -> None:
    """Small integers, whose sums are exact."""
    random = np.random.default_rng(len(kind))
    transposed, agreed = "Transpose" in kind, 0
    for _ in range(CASES):
        spatial = int(random.integers(1, 4))
        rows = random.integers([1, 1, 0, 0, 1], [4, 4, 2, 2, 3], (spatial, 5))
        kernel, strides, begin, end, dilations = (column.tolist() for column in rows.T)
        if kind == "ConvTransposeBackwardData":
            dilations = [1] * spatial  # The library ignores them there.
        sizes = random.integers(5, 9, spatial).tolist()
        groups = int(random.choice([1, 2]))
        a, b = (groups * int(count) for count in random.integers(1, 4, 2))
        dtype = str(random.choice(["f32", "bf16", "f16"]))
        attributes: dict[str, Any] = {
            "strides": strides, "pads_begin": begin, "pads_end": end, "dilations": dilations, "groups": groups,
            "auto_pad": str(random.choice(["None", "SAME_UPPER", "SAME_LOWER", "VALID"])), "data_format": "NCX",
            "weights_format": "IOX" if transposed else "OIX",
        }  # fmt: skip
        weights = (a, b // groups, *kernel)
        shapes = _sides(transposed, attributes, (2, a if transposed else b, *sizes), weights)
        # Version 3.13 computes wrong numbers in bf16 where the result of a convolution is one column.
        if shapes is None or (dtype == "bf16" and shapes["small"][-1] == 1):
            continue
        first, second, result = (shapes[side] for side in test_convolution_family.SIDES[kind])
        inputs = [random.integers(-3, 4, shape).astype(DTYPES[dtype]) for shape in (first, second)]
        name = {"ConvolutionBackwardData": "dst_shape"}.get(kind, "weights_shape" if kind.endswith("Weights") else "")
        told = {name: result} if name else {}
        declared = None if kind == "ConvTransposeBackwardData" else result
        agreed += agrees(onednn, kind, inputs, [(dtype, declared)], {**attributes, **told})
    assert agreed > CASES // 4  # f16 is run on some processors only


def _sides(
    transposed: bool, attributes: dict[str, Any], shape: tuple[int, ...], weights: tuple[int, ...]
) -> dict[str, tuple[int, ...]] | None:
    """Returns the shapes of the big and the small tensor and of the weights; None where there is no convolution."""
    graph = ortconv.onednn.Graph()
    tensors = [graph.tensor("src", "f32", shape), graph.tensor("weights", "f32", weights)]
    result = graph.op("ConvTranspose" if transposed else "Convolution", tensors, **attributes).shape
    if result is None or any(size is None or size < 1 for size in result):
        return None
    other = tuple(size for size in result if size is not None)
    big, small = (other, shape) if transposed else (shape, other)
    return {"big": big, "small": small, "weights": weights}


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_normalisations(onednn: Library, data_format: str, dtype: str, outputs: int) -> None:
    shape = (2, 6, 4, 5) if data_format == "NCX" else (2, 4, 5, 6)
    random = np.random.default_rng(0)
    if dtype == "f16" and not agrees(onednn, "ReLU", [np.ones(8, np.float16)], [("f16", (8,))], {}):
        pytest.skip("oneDNN computes in f16 on some processors only")

    def data(*shape: int, dtype: str = dtype) -> np.ndarray:
        return random.uniform(0.5, 2, shape).astype(DTYPES[dtype])

    vectors = [data(6, dtype="f32") for _ in range(4)]
    channels, ours = ("f32", (6,)), (dtype, shape)
    of_format, epsilon, statistics = {"data_format": data_format}, {"epsilon": 0.01}, outputs == 3
    cases: list[tuple[str, list[np.ndarray], Any, dict[str, Any]]] = [
        ("BatchNormInference", [data(*shape), *vectors], [ours], {**of_format, **epsilon}),
        ("BatchNormForwardTraining", [data(*shape), *vectors], [ours, *[channels] * 4],
         {**of_format, **epsilon, **({"momentum": 0.25} if statistics else {})}),
        ("BatchNormTrainingBackward", [data(*shape), data(*shape), *vectors[:3]], [ours, channels, channels][:outputs],
         {**of_format, **epsilon}),
        ("GroupNorm", [data(*shape), *vectors[:2]], [ours, *[("f32", (2, 3))] * (outputs - 1)],
         {**of_format, **epsilon, "groups": 3, "keep_stats": statistics}),
    ]  # fmt: skip
    row, last = (2, 4, 5), {"use_affine": statistics}
    flat = [data(*row, 6), data(*row, 6), data(*row, dtype="f32"), data(*row, dtype="f32"), *vectors[: 2 * statistics]]
    ours = (dtype, (*row, 6))
    cases += [
        ("LayerNorm", [data(*row, 6), *vectors[:2]], [ours, *[("f32", row)] * (outputs - 1)],
         {**epsilon, "keep_stats": statistics}),
        ("LayerNormBackward", flat, [ours, channels, channels][:outputs], {**epsilon, **last}),
        ("RMSNorm", [data(*row, 6), vectors[0]], [ours], epsilon),
    ]  # fmt: skip
    for case in cases:
        assert agrees(onednn, *case), case[0]


@pytest.mark.parametrize("path", test_shared_graphs.cases())
def test_sample_graphs(fusing: Library, path: pathlib.Path, request: pytest.FixtureRequest) -> None:
    if path.name in WRONG:
        mark = pytest.mark.xfail(reason=f"oneDNN {WRONG[path.name]}", raises=AssertionError, strict=True)
        request.applymarker(mark)
    program, document = load(path), json.loads(path.read_text())
    data = feeds(program)
    try:
        expected = fusing.run(document, data)
    except RefusedError as refusal:
        pytest.skip(f"oneDNN refuses the graph: {refusal}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SemanticsWarning)
        model = ortconv.convert(path, semantics="runtime")
    found = run(model, {f"tensor_{identity}": value for identity, value in data.items()}, "none")
    narrow = any(slot.dtype in ("bf16", "f16") for slot in program.slots.values())
    coarsest = max(EPSILON[slot.dtype] for slot in program.slots.values() if slot.dtype in EPSILON)
    for output, value in zip(model.graph.output, found, strict=True):
        right = expected[int(output.name.removeprefix("tensor_"))]
        assert (value.dtype, value.shape) == (right.dtype, right.shape)
        if value.dtype not in (np.int8, np.uint8):
            step = {"f8_e4m3": 2.0**-3, "f8_e5m2": 2.0**-2}.get(NAMES[value.dtype], max(8 * coarsest, 2.0**-15))
            x, y = value.astype(np.float64), right.astype(np.float64)
            largest = np.abs(y[np.isfinite(y)]).max(initial=0)
            np.testing.assert_allclose(x, y, rtol=step, atol=step * largest, err_msg=path.name)
            continue
        # A fused partition does not round in between, which decides on which side of a half an element falls.
        difference = np.abs(value.astype(int) - right.astype(int))
        assert difference.max() <= (4 if narrow else 1)
        assert np.count_nonzero(difference) <= 0.05 * difference.size + 1


def test_the_library_is_asked_at_all(onednn: Library) -> None:
    graph = build("ReLU", [np.array([-1.0, 2.0], ml_dtypes.bfloat16)], [("bf16", (2,))], {})
    (tensor,) = graph.inputs
    results = onednn.run(json.loads(graph.to_json()), {tensor.id: np.array([-1.0, 2.0], ml_dtypes.bfloat16)})
    assert results[graph.outputs[0].id].tolist() == [0, 2]
    bad = build("Clamp", [np.zeros(2, np.float32)], [("bf16", (2,))], {"min": 0.0, "max": 1.0})
    with pytest.raises(RefusedError, match="add_op"):
        onednn.run(json.loads(bad.to_json()), {})
