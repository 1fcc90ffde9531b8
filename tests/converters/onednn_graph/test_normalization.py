"""Normalisations, their statistics and their gradients against the references: attributes, formats, types, ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ortconv
from ortconv.errors import ConversionErrors
from tests.converters.onednn_graph.one_op import build, check
from tests.converters.onednn_graph.references.call import DTYPES

TYPES = [("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32")]
"""Of data and of statistics, as the specification pairs them."""

SHAPES = {1: (5,), 2: (4, 3), 3: (2, 3, 4)}


def data(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.5, 2, shape).astype(DTYPES[dtype])


def positive(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2, shape).astype(DTYPES[dtype])


def formatted(spatial: int, data_format: str, channels: int = 6) -> tuple[int, ...]:
    return (2, channels, *SHAPES[spatial]) if data_format == "NCX" else (2, *SHAPES[spatial], channels)


def vectors(count: int, dtype: str, channels: int = 6) -> list[np.ndarray]:
    return [positive((channels,), dtype, seed) for seed in range(count)]


@pytest.mark.parametrize(("spatial", "data_format"), [(1, "NXC"), (2, "NCX"), (2, "NXC"), (3, "NCX")])
@pytest.mark.parametrize(("dtype", "statistics"), TYPES)
class TestBatchNorm:
    def test_inference(self, dtype: str, statistics: str, data_format: str, spatial: int) -> None:
        shape = formatted(spatial, data_format)
        attributes = {"epsilon": 0.01, "data_format": data_format}
        check("BatchNormInference", [data(shape, dtype), *vectors(4, statistics)], [(dtype, shape)], attributes)

    @pytest.mark.parametrize("affine", [False, True])
    @pytest.mark.parametrize("momentum", [None, 0.0, 0.25])
    def test_training(
        self, dtype: str, statistics: str, data_format: str, spatial: int, momentum: float | None, affine: bool
    ) -> None:
        shape = formatted(spatial, data_format)
        attributes: dict[str, Any] = {"epsilon": 0.01, "data_format": data_format}
        if momentum is not None:
            attributes["momentum"] = momentum
        inputs = [data(shape, dtype), *vectors(4 if affine else 2, statistics)]
        outputs = [(dtype, shape), *[(statistics, (6,))] * 4]
        check("BatchNormForwardTraining", inputs, outputs, attributes, dynamic=affine)

    @pytest.mark.parametrize("semantics", ["spec", "runtime"])
    @pytest.mark.parametrize(("inputs", "outputs"), [(4, 1), (5, 1), (4, 3), (5, 3)])
    def test_gradient(
        self, dtype: str, statistics: str, data_format: str, spatial: int, inputs: int, outputs: int, semantics: Any
    ) -> None:
        shape = formatted(spatial, data_format)
        attributes = {"epsilon": 0.01, "data_format": data_format}
        given = [data(shape, dtype), data(shape, dtype, 1), *vectors(inputs - 2, statistics)]
        results = [(dtype, shape), *[(statistics, (6,))] * (outputs - 1)]
        check("BatchNormTrainingBackward", given, results, attributes, semantics=semantics, dynamic=inputs == 5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("axis", [None, -2, 0, 3])
@pytest.mark.parametrize(("dtype", "statistics"), TYPES)
class TestLayerNorm:
    SHAPE = (2, 3, 4, 5)

    def attributes(self, axis: int | None, **others: Any) -> dict[str, Any]:
        return others if axis is None else {"begin_norm_axis": axis, **others}

    def inner(self, axis: int | None) -> tuple[int, ...]:
        return self.SHAPE[-1 if axis is None else axis :]

    def outer(self, axis: int | None) -> tuple[int, ...]:
        return self.SHAPE[: -1 if axis is None else axis]

    @pytest.mark.parametrize("stats", ["no", "outer", "kept"])
    @pytest.mark.parametrize("gamma", ["no", "inner", "last"])
    def test_forward(
        self, dtype: str, statistics: str, axis: int | None, gamma: str, stats: str, dynamic: bool
    ) -> None:
        attributes = self.attributes(axis, keep_stats=stats != "no", use_affine=gamma != "no", epsilon=0.01)
        shape = self.inner(axis) if gamma == "inner" else (5,)
        inputs = [data(self.SHAPE, dtype)] + [positive(shape, statistics, i) for i in range(2 * (gamma != "no"))]
        outer = self.outer(axis) + (1,) * len(self.inner(axis)) * (stats == "kept")
        results = [(dtype, self.SHAPE), *[(statistics, outer)] * (2 * (stats != "no"))]
        check("LayerNorm", inputs, results, attributes, dynamic=dynamic)

    @pytest.mark.parametrize("kept", [False, True])
    @pytest.mark.parametrize(("inputs", "outputs"), [(4, 1), (4, 3), (5, 3), (6, 3), (6, 1)])
    def test_gradient(
        self, dtype: str, statistics: str, axis: int | None, inputs: int, outputs: int, kept: bool, dynamic: bool
    ) -> None:
        attributes = self.attributes(axis, use_affine=inputs > 4, epsilon=0.01)
        inner, outer = self.inner(axis), self.outer(axis) + (1,) * len(self.inner(axis)) * kept
        given = [data(self.SHAPE, dtype), data(self.SHAPE, dtype, 1), data(outer, statistics)]
        given += [positive(outer, statistics), *(positive(inner, statistics, i) for i in range(inputs - 4))]
        results = [(dtype, self.SHAPE), *[(statistics, inner)] * (outputs - 1)]
        check("LayerNormBackward", given, results, attributes, dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("keep_stats", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_group_norm(data_format: str, spatial: int, groups: int, keep_stats: bool, affine: bool, dynamic: bool) -> None:
    shape = formatted(spatial, data_format)
    attributes = {"groups": groups, "keep_stats": keep_stats, "use_affine": affine, "data_format": data_format}
    dtype, statistics = TYPES[(spatial + groups) % len(TYPES)]
    inputs = [data(shape, dtype), *vectors(2 * affine, statistics)]
    results = [(dtype, shape), *[(statistics, (2, groups))] * (2 * keep_stats)]
    check("GroupNorm", inputs, results, attributes, dynamic=dynamic)


@pytest.mark.parametrize("opset", [21, 23])
@pytest.mark.parametrize("gamma", [None, (5,), (1, 5), (1,), (3, 4, 5), (4, 5)])
@pytest.mark.parametrize("axis", [None, 1, 2])
@pytest.mark.parametrize(("dtype", "statistics"), [*TYPES, ("f16", "f16")])
def test_rms_norm(dtype: str, statistics: str, axis: int | None, gamma: tuple[int, ...] | None, opset: int) -> None:
    attributes = {"epsilon": 0.01} if axis is None else {"epsilon": 0.01, "begin_norm_axis": axis}
    inputs = [data((2, 3, 4, 5), dtype)] + ([] if gamma is None else [positive(gamma, statistics)])
    check("RMSNorm", inputs, [(dtype, (2, 3, 4, 5))], attributes, opset=opset)


def test_an_empty_batch_is_normalised_to_an_empty_one() -> None:
    inputs = [data((0, 3, 6), "f32"), *vectors(2, "f32")]
    for kind, attributes in (("GroupNorm", {"groups": 2, "keep_stats": False}), ("LayerNorm", {"keep_stats": False})):
        check(kind, inputs, [("f32", (0, 3, 6))], attributes)


def optimised(model: onnx.ModelProto, tmp_path: Any) -> list[str]:
    """The op types that are left after ONNX Runtime's own fusions."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]


def test_norms_become_single_nodes(tmp_path: Any) -> None:
    x, gamma, beta = data((2, 4, 6), "f32"), *vectors(2, "f32")
    constants = {"x1": gamma, "x2": beta}
    layer = check("LayerNorm", [x, gamma, beta], [("f32", x.shape)], {"keep_stats": False}, constants=constants)
    assert [node.op_type for node in layer.graph.node] == ["LayerNormalization"]
    rms = check("RMSNorm", [x, gamma], [("f32", x.shape)], {}, constants={"x1": gamma})
    assert optimised(rms, tmp_path) == ["SimplifiedLayerNormalization"]


def warnings_of(kind: str, inputs: list[np.ndarray], outputs: Any, **attributes: Any) -> tuple[str, ...]:
    return tuple(
        warning
        for step in ortconv.conversion(build(kind, inputs, outputs, attributes)).steps
        for warning in step.warnings
    )


def test_what_the_library_does_otherwise_is_said() -> None:
    x, c = data((2, 6, 4), "f32"), ("f32", (6,))
    five = [("f32", x.shape), c, c, c, c]
    given = ["BatchNormForwardTraining", [x, *vectors(2, "f32")], five]
    assert not warnings_of(*given, epsilon=0.1, data_format="NCX")
    gradient = [x, x, *vectors(2, "f32")]
    (warning,) = warnings_of("BatchNormTrainingBackward", gradient, five[:1], epsilon=0.1, data_format="NCX")
    assert "constants" in warning
    (warning,) = warnings_of("RMSNorm", [x, positive((6, 4), "f32")], five[:1])
    assert "broadcast" in warning
    narrow = data((2, 6, 4), "bf16")
    for kept in ("bf16", "f32"):
        outputs = [("bf16", narrow.shape), (kept, (2, 3)), (kept, (2, 3))]
        group = warnings_of("GroupNorm", [narrow], outputs, groups=3, use_affine=False, data_format="NCX")
        outputs = [("bf16", narrow.shape), (kept, (2, 6)), (kept, (2, 6))]
        for warnings in (group, warnings_of("LayerNorm", [narrow], outputs, use_affine=False)):
            assert len(warnings) == (kept == "bf16")
            assert all("the library stores f32 in their place" in warning for warning in warnings)


X, S = (2, 6, 4), (6,)
REFUSED: list[tuple[str, list[tuple[str, tuple[int, ...]]], list[tuple[str, Any]], dict[str, Any], str]] = [
    ("LayerNorm", [("f32", X)], [("f32", X)], {"use_affine": False}, "outputs; allowed: 3"),
    ("LayerNorm", [("f32", X)], [("f32", X)], {"keep_stats": False}, "gamma and beta"),
    ("LayerNorm", [("f32", X), ("f32", (4,))], [("f32", X)], {"keep_stats": False}, "gamma and beta"),
    ("LayerNorm", [("f32", X), ("f32", (3,)), ("f32", (4,))], [("f32", X)], {"keep_stats": False}, "gamma"),
    (
        "LayerNorm",
        [("f32", X)],
        [("f32", X)],
        {"keep_stats": False, "use_affine": False, "begin_norm_axis": 3},
        "-3 to",
    ),
    ("LayerNorm", [("f32", X), ("f16", (4,)), ("f16", (4,))], [("f32", X)], {"keep_stats": False}, "f16"),
    ("LayerNormBackward", [("f32", X)] * 2 + [("f32", (2, 6))] * 2, [("f32", X)], {}, "gamma"),
    ("LayerNormBackward", [("f32", X)] * 2 + [("f32", (2,))] * 2, [("f32", X)], {"use_affine": False}, "mean"),
    ("LayerNormBackward", [("f32", X)] * 2 + [("f32", (2, 5))] * 2, [("f32", X)], {"use_affine": False}, "[2, 6]"),
    ("LayerNormBackward", [("f32", X)] * 2 + [("f32", (2, 6, 4))] * 2, [("f32", X)], {"use_affine": False}, "6, 1]"),
    (
        "LayerNormBackward",
        [("f32", X), ("f32", S)] + [("f32", (2, 6))] * 2,
        [("f32", X)],
        {"use_affine": False},
        "diff",
    ),
    ("GroupNorm", [("f32", X)], [("f32", X)], {"groups": 3, "keep_stats": False, "use_affine": False}, "divisor"),
    ("GroupNorm", [("f32", X)], [("f32", X)], {"groups": 0, "keep_stats": False, "use_affine": False}, "divisor"),
    ("GroupNorm", [("f32", X), ("f32", S), ("f32", S)], [("f32", X)], {"groups": 2, "keep_stats": False}, "[4]"),
    ("RMSNorm", [("f32", X)], [("f32", X)], {"begin_norm_axis": -4}, "begin_norm_axis"),
    ("RMSNorm", [("f32", X), ("s32", (4,))], [("f32", X)], {}, "s32"),
    ("BatchNormInference", [("f32", X)] + [("f32", S)] * 4, [("f32", X)], {"epsilon": 0.1}, "[4]"),
    ("BatchNormInference", [("f32", X)] + [("bf16", (4,))] * 4, [("f32", X)], {"epsilon": 0.1}, "bf16"),
    (
        "BatchNormForwardTraining",
        [("f32", X)] + [("f32", (4,))] * 3,
        [("f32", X)] + [("f32", (4,))] * 4,
        {"epsilon": 0.1},
        "beta",
    ),
    (
        "BatchNormTrainingBackward",
        [("f32", X)] * 2 + [("f32", (4,))] * 2,
        [("f32", X), ("f32", (4,))],
        {"epsilon": 0.1},
        "2 outputs",
    ),
]


@pytest.mark.parametrize(("kind", "inputs", "outputs", "attributes", "text"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(kind: str, inputs: Any, outputs: Any, attributes: dict[str, Any], text: str) -> None:
    arrays = [positive(shape, dtype) for dtype, shape in inputs]
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(build(kind, arrays, outputs, attributes))
    (error,) = caught.value.exceptions
    assert text in str(error)
    assert error.node is not None
    assert error.node.op_type == kind
