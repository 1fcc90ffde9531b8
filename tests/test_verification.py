"""Verification: comparing arrays, the float64 reference of oneDNN, OpenVINO as an oracle, and wrong models."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import ortconv
from ortconv import onednn
from ortconv.api import detect
from ortconv.errors import ExecutionError, InputError
from ortconv.inputs import Input, fill, fit
from ortconv.verification import Verification
from ortconv.verification.compare import compare, default_tolerance
from ortconv.verification.onednn import KINDS, OneDnnReference
from tests.onednn_graph import reference

NONE: tuple[Any, ...] = ("none",)


class TestCompare:
    def test_equal_arrays_agree_even_without_tolerance(self) -> None:
        array = np.array([1.0, np.nan, np.inf, -np.inf, 0.0], np.float32)
        found = compare("y", array.copy(), array, 0.0)
        assert found.agrees
        assert (found.max_abs, found.max_rel, found.wrong, found.worst) == (0.0, 0.0, 0, None)

    def test_error_is_relative_to_the_expected_value_or_the_root_mean_square(self) -> None:
        expected = np.array([0.0, 3.0, 4.0, 100.0])
        actual = expected + np.array([0.5, 0.0, 0.0, 1.0])
        found = compare("y", actual, expected, 0.01)
        rms = np.sqrt((9 + 16 + 10000) / 4)
        assert found.max_abs == 1.0
        assert found.max_rel == pytest.approx(max(0.5 / rms, 1.0 / 100.0))
        assert found.agrees
        assert found.worst == ((3,), 100.0, 101.0)

    def test_element_beyond_the_tolerance_differs(self) -> None:
        found = compare("y", np.array([1.0, 1.2]), np.array([1.0, 1.0]), 0.1)
        assert not found.agrees
        assert (found.wrong, found.worst) == (1, ((1,), 1.0, 1.2))

    def test_worst_element_is_one_that_differs(self) -> None:
        found = compare("y", np.array([np.nan, np.inf, 2.0]), np.array([np.nan, np.inf, 1.0]), 0.1)
        assert (found.wrong, found.worst) == (1, ((2,), 1.0, 2.0))

    @pytest.mark.parametrize(
        ("actual", "expected"),
        [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (1.0, np.inf), (np.inf, -np.inf), (np.nan, np.inf)],
    )
    def test_nan_or_infinity_on_one_side_differs_whatever_the_tolerance(self, actual: float, expected: float) -> None:
        found = compare("y", np.array([5.0, actual]), np.array([5.0, expected]), 1e9)
        assert not found.agrees
        assert found.wrong == 1
        assert (found.max_abs, found.max_rel) == (np.inf, np.inf)
        assert found.worst is not None
        assert found.worst[0] == (1,)

    def test_shape_mismatch_is_the_problem(self) -> None:
        found = compare("y", np.zeros((1, 2)), np.zeros((2, 1)), 1.0)
        assert not found.agrees
        assert found.problem == "shape [1, 2] instead of [2, 1]"

    def test_type_mismatch_is_the_problem(self) -> None:
        found = compare("y", np.zeros(2, np.float32), np.zeros(2, np.float16), 1.0)
        assert found.problem == "type float32 instead of float16"

    def test_missing_output_is_the_problem(self) -> None:
        assert not compare("y", None, np.zeros(0), 1.0).agrees

    def test_large_integers_that_are_one_float_differ(self) -> None:
        found = compare("y", np.array([2**53 + 1]), np.array([2**53]), 0.0)
        assert (found.wrong, found.max_abs) == (1, 1.0)

    def test_result_where_zeros_are_expected_differs(self) -> None:
        assert not compare("y", np.array([1e-30, 0.0]), np.zeros(2), 0.5).agrees

    def test_empty_arrays_agree(self) -> None:
        assert compare("y", np.zeros((0, 3)), np.zeros((0, 3)), 0.0).agrees

    @pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.bool_, np.uint64, ml_dtypes.float8_e4m3fn])
    def test_every_type_compares(self, dtype: Any) -> None:
        array = np.array([0, 1, 1], dtype)
        assert compare("y", array.copy(), array, 0.0).agrees
        assert compare("y", np.array([1, 1, 1], dtype), array, 0.0).wrong == 1


class TestInputs:
    SIZES = (Input("a", ir.DataType.FLOAT, ("N", 3)), Input("b", ir.DataType.INT8, ("N", None)))

    def test_random_data_depends_on_seed_and_name_only(self) -> None:
        one = fill(self.SIZES, {}, {"a": [2, 3], "b": [2, 5]}, 7)
        other = fill(self.SIZES[::-1], {}, {"a": [2, 3], "b": [2, 5]}, 7)
        np.testing.assert_array_equal(one["a"], other["a"])
        assert not np.array_equal(one["a"], fill(self.SIZES, {}, {"a": [2, 3], "b": [2, 5]}, 8)["a"])
        assert (one["b"].dtype, np.abs(one["b"]).max() <= 10) == (np.int8, True)

    def test_symbolic_dim_is_bound_by_another_input(self) -> None:
        inputs = (Input("a", ir.DataType.FLOAT, ("N", 3)), Input("b", ir.DataType.FLOAT, (3, "N")))
        assert fill(inputs, {}, {"a": [4, 3]}, 0)["b"].shape == (3, 4)

    @pytest.mark.parametrize(
        ("given", "shapes", "name", "problem"),
        [
            ({}, {}, "a", "leaves its shape open ([N, 3])"),
            ({"c": np.zeros(1)}, {}, "c", "no such input; it has a, b"),
            ({}, {"a": [2, 4]}, "a", "shape [2, 4] does not fit; the model declares [N, 3]"),
            ({}, {"a": [2, 3, 1]}, "a", "does not fit"),
            ({}, {"a": [2, 3], "b": [3, 1]}, "b", "dim N is 3 in shape [3, 1], and 2 in that of a"),
            ({"a": np.full((1, 3), 1e300)}, {"b": [1, 1]}, "a", "not all of it is representable as float32"),
            ({"a": np.array([["x"] * 3])}, {"b": [1, 1]}, "a", "numbers are required"),
            ({}, {"a": [1 << 40, 3], "b": [1 << 40, 1]}, "a", "more than 16 GiB"),
        ],
    )
    def test_what_does_not_fit_is_refused(
        self, given: Mapping[str, np.ndarray], shapes: Mapping[str, list[int]], name: str, problem: str
    ) -> None:
        with pytest.raises(InputError) as caught:
            fill(self.SIZES, given, shapes, 0)
        assert caught.value.input == name
        assert problem in caught.value.problem

    def test_data_is_converted_where_that_changes_nothing(self) -> None:
        array = fit(np.array([1.5, np.nan, np.inf]), ir.DataType.BFLOAT16, "a")
        assert array.dtype == ml_dtypes.bfloat16
        assert float(array[0]) == 1.5
        assert fit(np.array([3]), ir.DataType.INT32, "a").dtype == np.int32


def graph(kind: str, shapes: Mapping[str, list[int]], dtype: str = "f32", **attributes: Any) -> onednn.Graph:
    """A oneDNN graph of one op."""
    made = onednn.Graph(kind)
    made.op(kind, [made.tensor(name, dtype, shape) for name, shape in shapes.items()], **attributes)
    return made


def evaluate(source: onednn.Graph, feeds: Mapping[str, np.ndarray], semantics: Any = "spec") -> np.ndarray:
    read = detect(source).read(source, {})
    (output,) = OneDnnReference(read, semantics).run(feeds, everything=False).outputs
    return output


SAMPLES = (
    ((7,), (3,), (2,), (1,), "NCX", 1),
    ((6, 5), (3, 2), (2, 3), (2, 1), "NXC", 2),
    ((4, 3, 5), (2, 3, 1), (1, 2, 3), (1, 1, 2), "NXC", 1),
)
"""Spatial sizes of the big tensor, kernel, strides, dilations, data_format, groups."""


SAME = ("SAME_UPPER", "SAME_LOWER")


@pytest.mark.parametrize("sample", SAMPLES, ids=["1d", "2d", "3d"])
class TestOneDnnReference:
    """The evaluator against nested loops that share no code with it."""

    @staticmethod
    def setup_case(sample: Any, auto_pad: str) -> tuple[dict[str, Any], list[list[int]], tuple[int, ...]]:
        big, kernel, strides, dilations, data_format, groups = sample
        pads = [
            reference.conv_same(auto_pad, *axis) if auto_pad.startswith("SAME") else (0, 0)
            for axis in zip(big, kernel, strides, dilations, strict=True)
        ]
        if auto_pad == "None":
            pads = [(1, 2)] * len(big)
        small = tuple(
            (size + b + e - (k - 1) * d - 1) // s + 1
            for size, k, s, d, (b, e) in zip(big, kernel, strides, dilations, pads, strict=True)
        )
        attributes = {
            "strides": list(strides),
            "dilations": list(dilations),
            "pads_begin": [1] * len(big),
            "pads_end": [2] * len(big),
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
        }
        return attributes, [[b for b, _ in pads]], small

    @pytest.mark.parametrize("auto_pad", ["None", "VALID", *SAME])
    def test_convolution_and_its_gradients(self, sample: Any, auto_pad: str) -> None:
        big_size, kernel, strides, dilations, data_format, groups = sample
        attributes, (begin,), small_size = self.setup_case(sample, auto_pad)
        rng = np.random.default_rng(1)
        big, weights = rng.standard_normal((2, 4, *big_size)), rng.standard_normal((6, 4 // groups, *kernel))
        small = rng.standard_normal((2, 6, *small_size))
        loops = reference.Map(strides, dilations, begin, groups)
        lay = lambda array: reference.from_ncx(array, data_format).astype(np.float32)  # noqa: E731
        xio = reference.from_first(weights, "XIO").astype(np.float32)
        rounded = [array.astype(np.float32).astype(np.float64) for array in (big, weights, small)]

        forward = graph("Convolution", {"src": list(lay(big).shape), "w": list(xio.shape)}, **attributes)
        np.testing.assert_allclose(
            evaluate(forward, {"src": lay(big), "w": xio}),
            lay(loops.small(rounded[0], rounded[1], small_size)),
            rtol=1e-5,
            atol=1e-5,
        )
        data = graph(
            "ConvolutionBackwardData",
            {"diff_dst": list(lay(small).shape), "w": list(xio.shape)},
            dst_shape=list(lay(big).shape),
            **attributes,
        )
        np.testing.assert_allclose(
            evaluate(data, {"diff_dst": lay(small), "w": xio}, "runtime"),
            lay(loops.big(rounded[2], rounded[1], big_size)),
            rtol=1e-5,
            atol=1e-5,
        )
        gradient = graph(
            "ConvolutionBackwardWeights",
            {"src": list(lay(big).shape), "diff_dst": list(lay(small).shape)},
            weights_shape=list(xio.shape),
            **attributes,
        )
        np.testing.assert_allclose(
            evaluate(gradient, {"src": lay(big), "diff_dst": lay(small)}),
            reference.from_first(loops.weights(rounded[0], rounded[2], kernel), "XIO"),
            rtol=1e-4,
            atol=1e-4,
        )

    @pytest.mark.parametrize("auto_pad", ["None", "VALID", *SAME])
    def test_transposed_convolution_and_its_gradients(self, sample: Any, auto_pad: str) -> None:
        small_size, kernel, strides, dilations, data_format, groups = sample
        rule = {"None": (1, 0), "VALID": (0, 0)}
        pads = [
            rule.get(auto_pad) or reference.conv_transpose_same(auto_pad, *axis)
            for axis in zip(kernel, strides, dilations, strict=True)
        ]
        begin = [b for b, _ in pads]
        big_size = [
            reference.full(*axis) - b - e
            for axis, (b, e) in zip(zip(small_size, kernel, strides, dilations, strict=True), pads, strict=True)
        ]
        attributes = {
            "strides": list(strides),
            "dilations": list(dilations),
            "pads_begin": [1] * len(kernel),
            "pads_end": [0] * len(kernel),
            "auto_pad": auto_pad,
            "groups": groups,
            "data_format": data_format,
            "weights_format": "IOX",
        }
        rng = np.random.default_rng(3)
        small = rng.integers(-3, 4, (2, 4, *small_size)).astype(np.float32)
        big = rng.integers(-3, 4, (2, 6, *big_size)).astype(np.float32)
        weights = rng.integers(-3, 4, (4, 6 // groups, *kernel)).astype(np.float32)
        src, diff_dst = reference.from_ncx(small, data_format), reference.from_ncx(big, data_format)
        loops = reference.Map(strides, dilations, begin, groups)

        forward = graph("ConvTranspose", {"src": list(src.shape), "w": list(weights.shape)}, **attributes)
        np.testing.assert_array_equal(
            evaluate(forward, {"src": src, "w": weights}),
            reference.from_ncx(loops.big(small, weights, big_size), data_format),
        )
        gradient = graph(
            "ConvTransposeBackwardWeights",
            {"src": list(src.shape), "diff_dst": list(diff_dst.shape)},
            weights_shape=list(weights.shape),
            **attributes,
        )
        np.testing.assert_array_equal(
            evaluate(gradient, {"src": src, "diff_dst": diff_dst}), loops.weights(big, small, kernel)
        )
        if auto_pad in SAME:
            return  # The gradient of the data pads as a convolution does; see above.
        data = graph(
            "ConvTransposeBackwardData", {"diff_dst": list(diff_dst.shape), "w": list(weights.shape)}, **attributes
        )
        np.testing.assert_array_equal(
            evaluate(data, {"diff_dst": diff_dst, "w": weights}),
            reference.from_ncx(loops.small(big, weights, small_size), data_format),
        )

    @pytest.mark.parametrize("auto_pad", SAME)
    def test_spec_and_runtime_split_an_odd_total_differently(self, sample: Any, auto_pad: str) -> None:
        big_size, kernel, strides, dilations, data_format, groups = sample
        attributes, _, small_size = self.setup_case(sample, auto_pad)
        rng = np.random.default_rng(2)
        small = rng.standard_normal((1, 2 * groups, *small_size)).astype(np.float32)
        weights = rng.standard_normal((2 * groups, 3, *kernel)).astype(np.float32)
        diff_dst, xio = reference.from_ncx(small, data_format), reference.from_first(weights, "XIO")
        shape = list(reference.from_ncx(np.zeros((1, 3 * groups, *big_size)), data_format).shape)
        source = graph(
            "ConvolutionBackwardData",
            {"diff_dst": list(diff_dst.shape), "w": list(xio.shape)},
            dst_shape=shape,
            **attributes,
        )
        for semantics in ("spec", "runtime"):
            begin = [
                reference.backward_data_begin(semantics, auto_pad, x, k, y, s, d, 0)
                for x, k, y, s, d in zip(small_size, kernel, big_size, strides, dilations, strict=True)
            ]
            expected = reference.Map(strides, dilations, begin, groups).big(
                small.astype(np.float64), weights.astype(np.float64), big_size
            )
            np.testing.assert_allclose(
                evaluate(source, {"diff_dst": diff_dst, "w": xio}, semantics),
                reference.from_ncx(expected, data_format),
                rtol=1e-5,
                atol=1e-5,
            )


ELEMENTWISE_SAMPLES: dict[str, tuple[dict[str, Any], Callable[[float], float]]] = {
    "Abs": ({}, abs),
    "Elu": ({"alpha": 0.5}, lambda x: x if x > 0 else 0.5 * (math.exp(x) - 1)),
    "Clamp": ({"min": -0.5, "max": 1.0}, lambda x: max(-0.5, min(1.0, x))),
    "GELU": ({}, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "HardSigmoid": ({"alpha": 0.25, "beta": 0.5}, lambda x: max(0.0, min(1.0, 0.25 * x + 0.5))),
    "HardSwish": ({}, lambda x: x * max(0.0, min(1.0, x / 6 + 0.5))),
    "LeakyReLU": ({"alpha": 0.125}, lambda x: x if x > 0 else 0.125 * x),
    "Mish": ({}, lambda x: x * math.tanh(math.log1p(math.exp(x)))),
    "Round": ({}, round),
    "Sigmoid": ({}, lambda x: 1 / (1 + math.exp(-x))),
    "SoftPlus": ({"beta": 2.0}, lambda x: math.log1p(math.exp(2 * x)) / 2),
    "Square": ({}, lambda x: x * x),
}


@pytest.mark.parametrize("kind", ELEMENTWISE_SAMPLES)
def test_elementwise_op_is_as_its_page_says(kind: str) -> None:
    attributes, expected = ELEMENTWISE_SAMPLES[kind]
    x = np.array([-4.0, -2.5, -0.75, 0.0, 0.5, 1.5, 3.25], np.float32)
    result = evaluate(graph(kind, {"x": [7]}, **attributes), {"x": x})
    np.testing.assert_allclose(result, [expected(float(each)) for each in x], rtol=1e-6, atol=1e-7)


def test_narrow_results_are_rounded_where_they_are_produced() -> None:
    source = onednn.Graph("sum")
    x = source.tensor("x", "bf16", [2])
    y = source.tensor("y", "bf16", [2])
    total = source.op("Add", [x, y])
    source.op("Multiply", [total, total])
    feeds = {name: np.array([1.0, 1.0 + 2**-7], ml_dtypes.bfloat16) for name in ("x", "y")}
    feeds["y"] = np.array([2**-8, 2**-8], ml_dtypes.bfloat16)
    total_rounded = (feeds["x"].astype(np.float64) + feeds["y"].astype(np.float64)).astype(ml_dtypes.bfloat16)
    expected = (total_rounded.astype(np.float64) ** 2).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(evaluate(source, feeds), expected)


def test_default_tolerance_follows_the_narrowest_computed_type() -> None:
    def tolerance(dtype: str) -> float:
        source = graph("ReLU", {"x": [2]}, dtype)
        allowed = default_tolerance(detect(source).read(source, {}), ir.DataType.DOUBLE)
        assert allowed.of(np.zeros(1, np.int8)) == 0.0
        return allowed.of(np.zeros(1, np.float32))

    assert tolerance("f32") == 2e-5
    assert tolerance("f16") == 5 * 2**-10
    assert tolerance("bf16") == 5 * 2**-7


def upsampling(auto_pad: str = "SAME_UPPER") -> onednn.Graph:
    source = onednn.Graph("up")
    x = source.tensor("x", "f32", [1, 4, 4, 3])
    w = source.tensor("w", "f32", [3, 3, 2, 3])
    up = source.op(
        "ConvolutionBackwardData",
        [x, w],
        strides=[2, 2],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[1, 1],
        auto_pad=auto_pad,
        dst_shape=[1, 8, 8, 2],
    )
    relu = source.op("ReLU", [up])
    source.op("Sigmoid", [relu])
    return source


def saved(source: object, path: pathlib.Path, change: Callable[[onnx.ModelProto], None] = lambda model: None) -> str:
    """Converts a source, changes the model, and returns the file."""
    model = ortconv.conversion(source).to_proto()
    change(model)
    onnx.save(model, path)
    return str(path)


class TestOneDnnVerification:
    def test_conversion_agrees(self) -> None:
        found = ortconv.verify(upsampling(), backends=NONE, layers=True)
        assert isinstance(found, Verification)
        assert found.agrees
        assert (found.oracle, found.semantics, found.model) == ("float64 reference", "spec", "")
        assert [layer.node.op_type for layer in found.layers] == ["ConvolutionBackwardData", "ReLU", "Sigmoid"]
        assert found.first_difference is None

    def test_runtime_semantics_agree_with_themselves_and_not_with_spec(self, tmp_path: pathlib.Path) -> None:
        assert ortconv.verify(upsampling(), semantics="runtime", backends=NONE).agrees
        model = saved(upsampling(), tmp_path / "spec.onnx")
        assert ortconv.verify(upsampling(), model, backends=NONE).semantics == "spec"
        assert not ortconv.verify(upsampling(), model, semantics="runtime", backends=NONE).agrees

    def test_wrong_model_differs_and_the_first_layer_is_named(self, tmp_path: pathlib.Path) -> None:
        model = saved(upsampling("SAME_LOWER"), tmp_path / "wrong.onnx")
        found = ortconv.verify(upsampling("SAME_UPPER"), model, backends=NONE, layers=True)
        assert not found.agrees
        first = found.first_difference
        assert first is not None
        assert first.node.op_type == "ConvolutionBackwardData"
        assert first.comparison.wrong > 0

    def test_difference_behind_good_layers_is_found(self, tmp_path: pathlib.Path) -> None:
        def scale(model: onnx.ModelProto) -> None:
            (node,) = (node for node in model.graph.node if node.op_type == "Sigmoid")
            node.op_type = "HardSigmoid"

        found = ortconv.verify(
            upsampling(), saved(upsampling(), tmp_path / "m.onnx", scale), backends=NONE, layers=True
        )
        assert not found.agrees
        assert [layer.comparison.agrees for layer in found.layers] == [True, True, False]
        assert found.first_difference is not None
        assert found.first_difference.node.op_type == "Sigmoid"

    def test_nan_in_the_model_alone_differs(self, tmp_path: pathlib.Path) -> None:
        def poison(model: onnx.ModelProto) -> None:
            output = model.graph.output[0].name
            (node,) = (node for node in model.graph.node if output in node.output)
            node.output[0] = "before"
            model.graph.node.append(onnx.helper.make_node("Sub", ["before", "before"], ["zero"]))
            model.graph.node.append(onnx.helper.make_node("Div", ["zero", "zero"], [output]))

        found = ortconv.verify(upsampling(), saved(upsampling(), tmp_path / "m.onnx", poison), backends=NONE)
        (comparison,) = found.outputs["none"]
        assert comparison.wrong == 128

    def test_another_shape_is_reported(self, tmp_path: pathlib.Path) -> None:
        def flatten(model: onnx.ModelProto) -> None:
            output = model.graph.output[0]
            (node,) = (node for node in model.graph.node if output.name in node.output)
            node.output[0] = "before"
            model.graph.node.append(onnx.helper.make_node("Flatten", ["before"], [output.name]))
            output.type.tensor_type.ClearField("shape")
            output.type.CopyFrom(onnx.helper.make_tensor_type_proto(1, [1, 128]))

        found = ortconv.verify(upsampling(), saved(upsampling(), tmp_path / "m.onnx", flatten), backends=NONE)
        assert found.outputs["none"][0].problem == "shape [1, 128] instead of [1, 8, 8, 2]"

    def test_tolerance_of_zero_finds_rounding(self) -> None:
        assert not ortconv.verify(upsampling(), tolerance=0.0, backends=NONE).agrees

    def test_model_with_other_inputs_is_refused(self, tmp_path: pathlib.Path) -> None:
        model = saved(graph("ReLU", {"z": [2]}), tmp_path / "other.onnx")
        with pytest.raises(ExecutionError, match=r"inputs z; the source has w, x\."):
            ortconv.verify(upsampling(), model, backends=NONE)

    def test_every_op_that_is_converted_can_be_verified(self) -> None:
        assert {lowering.op_type for lowering in detect(upsampling()).registry} <= KINDS

    def test_op_beyond_the_reference_is_refused(self) -> None:
        source = onednn.Graph()
        source.op("Wildcard", [source.tensor("x", "f32", [2])], dtype="f32")
        with pytest.raises(ExecutionError, match="float64 reference: does not know Wildcard") as caught:
            evaluate(source, {"x": np.zeros(2, np.float32)})
        assert caught.value.runtime == "float64 reference"

    def test_every_backend_agrees(self) -> None:
        source = upsampling()
        try:
            ortconv.library_path()
        except ortconv.PluginError as error:
            pytest.skip(f"the native library is not built: {error.problem}")
        pytest.importorskip("onnxruntime_extensions", reason="the Python ops need onnxruntime-extensions")
        found = ortconv.verify(source, target="plugin", backends=("native", "python", "none"))
        assert found.agrees
        assert set(found.outputs) == {"native", "python", "none"}

    def test_backend_that_cannot_run_is_skipped_unless_it_is_the_only_one(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ORTCONV_LIBRARY", str(tmp_path / "missing.so"))
        found = ortconv.verify(upsampling(), target="plugin")
        assert set(found.outputs) == {"none"}
        assert "not a file" in found.skipped["native"]
        with pytest.raises(ortconv.PluginError):
            ortconv.verify(upsampling(), target="plugin", backends=("native",))


class TestOpenVinoVerification:
    @pytest.fixture
    def network(self, tmp_path: pathlib.Path) -> pathlib.Path:
        openvino = pytest.importorskip("openvino", reason="OpenVINO is the oracle")
        op = pytest.importorskip("openvino.opset13")
        x = op.parameter([-1, 4, -1, -1], openvino.Type.f32, name="x")
        weights = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
        shape = op.constant(np.array([9, 10], np.int64))
        up = op.convolution_backprop_data(x, op.constant(weights), [2, 2], shape, name="up")
        relu = op.relu(up, name="relu")
        path = tmp_path / "network.xml"
        openvino.save_model(
            openvino.Model([relu, op.sigmoid(relu, name="s")], [x], "net"), path, compress_to_fp16=False
        )
        return path

    SHAPES = {"x": [1, 4, 5, 5]}  # noqa: RUF012

    def test_conversion_agrees_with_openvino(self, network: pathlib.Path) -> None:
        found = ortconv.verify(network, shapes=self.SHAPES, backends=NONE, layers=True)
        assert found.agrees
        assert found.oracle.startswith("OpenVINO")
        assert found.semantics == "runtime"
        assert [layer.node.name for layer in found.layers] == ["up", "relu", "s"]
        assert found.warnings == ()

    def test_model_object_verifies_like_its_file(self, network: pathlib.Path) -> None:
        import openvino

        model = openvino.Core().read_model(network)
        found = ortconv.verify(model, shapes=self.SHAPES, backends=NONE)
        assert found.agrees
        assert len(model.outputs) == 2

    def test_spec_model_differs_with_a_warning_that_says_why(
        self, network: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        model = saved(network, tmp_path / "spec.onnx")
        found = ortconv.verify(network, model, shapes=self.SHAPES, backends=NONE, layers=True)
        assert found.semantics == "spec"
        assert not found.agrees
        assert found.first_difference is not None
        assert found.first_difference.node.name == "up"
        (warning,) = found.warnings
        assert "'up'" in warning

    def test_openvino_missing_is_said(self, network: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "openvino", None)
        with pytest.raises(ExecutionError) as caught:
            ortconv.verify(network, shapes=self.SHAPES, backends=NONE)
        assert caught.value.runtime == "OpenVINO"
        assert "ortconv[openvino]" in caught.value.hint
