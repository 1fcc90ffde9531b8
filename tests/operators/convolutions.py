"""Cases of the convolution operators, their definition in nested loops, models of one node, and fixtures of them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ortconv.convolution_arithmetic import AutoPad
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.domain import DOMAIN
from ortconv.runtime.library import library_path

__all__ = [
    "CASES",
    "DTYPES",
    "FLOATS",
    "NXC",
    "Case",
    "Exact",
    "cases",
    "define",
    "library",
    "make_case",
    "pytest_generate_tests",
]

DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float64": np.dtype(np.float64),
    **{name: np.dtype(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
}
FLOATS = ("float32", "float16", "bfloat16", "float64")


@dataclasses.dataclass(frozen=True)
class Case:
    """One node: shapes in the plain layout ([N, C, X...], weights as the op words them) and its attributes."""

    op: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    attributes: dict[str, Any]
    bias: bool = True
    output_shape: tuple[int, ...] | None = None

    @property
    def axes(self) -> int:
        return len(self.x) - 2

    @property
    def channels(self) -> int:
        return self.w[0] if self.op == "Convolution" else self.w[1] * self.attributes["group"]

    @property
    def names(self) -> list[str]:
        """Of the inputs as the node takes them, B included."""
        third = {"TransposedConvolutionToShape": ["output_shape"], "TransposedConvolutionAdd": ["R"]}.get(self.op, [])
        return ["X", "W", *third, "B"]

    def inputs(self, dtype: np.dtype[Any], seed: int = 7) -> list[np.ndarray | None]:
        """X, W, (output_shape or R,) B as the node takes them; integers over their whole range, so that sums wrap."""
        rng = np.random.default_rng(seed)

        def draw(shape: tuple[int, ...]) -> np.ndarray:
            if dtype.kind in "iu":
                info = np.iinfo(dtype)
                return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
            return rng.standard_normal(shape).astype(dtype)

        x = np.transpose(draw(self.x), np.argsort(self.attributes["x_perm"]))
        w = np.transpose(draw(self.w), np.argsort(self.attributes["w_perm"]))
        bias = draw((self.channels,)) if self.bias else None
        third = [] if self.output_shape is None else [np.array(self.output_shape, np.int64)]
        if self.op == "TransposedConvolutionAdd":
            y = (self.x[0], self.channels, *_begin_and_sizes(self)[1])
            third = [draw(tuple(y[axis] for axis in self.attributes["y_perm"]))]
        return [np.ascontiguousarray(x), np.ascontiguousarray(w), *third, bias]

    def model(self, dtype: np.dtype[Any], opset: int = 21) -> onnx.ModelProto:
        """A model of this one node, its shapes left open."""
        element = helper.np_dtype_to_tensor_dtype(dtype)
        attributes = {**self.attributes, "accumulation_type": ACCUMULATION[element]}
        names = self.names if self.bias else self.names[:-1]
        node = helper.make_node(self.op, names, ["Y"], name="node", domain=DOMAIN, **attributes)
        rank = {"B": 1, "output_shape": 1}
        inputs = [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name == "output_shape" else element, [None] * rank.get(name, len(self.x))
            )
            for name in names
        ]
        output = helper.make_tensor_value_info("Y", element, [None] * len(self.x))
        return helper.make_model(
            helper.make_graph([node], "case", inputs, [output]),
            opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)],
            ir_version=10,
        )

    def feeds(self, inputs: list[np.ndarray | None]) -> dict[str, np.ndarray]:
        return {name: data for name, data in zip(self.names, inputs, strict=True) if data is not None}


def _case(
    op: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    bias: bool = True,
    output_shape: tuple[int, ...] | None = None,
    **attributes: Any,
) -> Case:
    axes = len(x) - 2
    identity = list(range(axes + 2))
    given: dict[str, Any] = {"strides": [1] * axes, "dilations": [1] * axes, "group": 1}
    if op in ("TransposedConvolution", "TransposedConvolutionAdd"):
        given |= {"pads": [0] * 2 * axes, "output_padding": [0] * axes}
    elif op == "TransposedConvolutionToShape":
        given |= {"auto_pad": AutoPad.NOTSET, "pads_begin": [0] * axes, "output_padding": [0] * axes}
    else:
        given |= {"auto_pad": AutoPad.NOTSET, "pads": [0] * 2 * axes}
    given |= {"x_perm": identity, "w_perm": identity, "y_perm": identity}
    assert attributes.keys() <= given.keys()
    return Case(op, x, w, given | attributes, bias, output_shape)


NXC = {"x_perm": [0, 3, 1, 2], "w_perm": [2, 3, 0, 1], "y_perm": [0, 2, 3, 1]}

CASES: dict[str, Case] = {
    "transposed_plain": _case("TransposedConvolution", (2, 3, 4, 3), (3, 2, 3, 3), bias=False),
    "transposed_1d_stride_and_padding": _case(
        "TransposedConvolution", (1, 2, 6), (2, 3, 4), strides=[3], pads=[1, 2], output_padding=[2]
    ),
    "transposed_groups_dilation_asymmetric_pads": _case(
        "TransposedConvolution",
        (2, 4, 3, 4),
        (4, 2, 2, 3),
        group=2,
        strides=[2, 1],
        dilations=[3, 2],
        pads=[1, 0, 2, 3],
    ),
    "transposed_depthwise_nxc": _case(
        "TransposedConvolution", (1, 3, 3, 3), (3, 1, 2, 2), group=3, strides=[2, 2], **NXC
    ),
    "transposed_3d_odd_layout": _case(
        "TransposedConvolution",
        (1, 2, 2, 3, 2),
        (2, 2, 2, 1, 3),
        strides=[2, 2, 1],
        pads=[0, 1, 1, 1, 0, 0],
        output_padding=[1, 0, 1],
        x_perm=[4, 0, 2, 1, 3],
        w_perm=[1, 3, 4, 2, 0],
        y_perm=[3, 1, 4, 0, 2],
    ),
    "transposed_output_padding_beyond_stride": _case(
        "TransposedConvolution", (1, 2, 3, 2), (2, 2, 1, 2), strides=[2, 3], output_padding=[5, 9]
    ),
    "transposed_output_padding_takes_off": _case(
        "TransposedConvolution", (1, 2, 3, 2), (2, 2, 3, 2), strides=[2, 3], pads=[1, 0, 1, 0], output_padding=[-2, -1]
    ),
    "transposed_kernel_smaller_than_stride": _case(
        "TransposedConvolution", (1, 2, 3), (2, 2, 2), strides=[5], pads=[1, 1]
    ),
    "transposed_pads_leave_nothing": _case("TransposedConvolution", (1, 2, 2, 3), (2, 3, 2, 2), pads=[1, 0, 2, 0]),
    "transposed_empty_batch": _case("TransposedConvolution", (0, 2, 2, 3), (2, 3, 2, 2), strides=[2, 2]),
    "transposed_empty_input": _case("TransposedConvolution", (2, 2, 0), (2, 3, 4), strides=[2], output_padding=[1]),
    "transposed_four_axes": _case(
        "TransposedConvolution", (1, 1, 2, 1, 2, 2), (1, 2, 1, 2, 2, 1), strides=[1, 2, 2, 1]
    ),
    "to_shape_fixed_begin": _case(
        "TransposedConvolutionToShape",
        (1, 2, 3, 4),
        (2, 2, 3, 2),
        strides=[2, 3],
        pads_begin=[1, 2],
        output_shape=(4, 9),
    ),
    "to_shape_beyond_full": _case(
        "TransposedConvolutionToShape",
        (1, 2, 2, 2),
        (2, 1, 2, 2),
        strides=[2, 2],
        pads_begin=[1, 0],
        output_shape=(9, 7),
    ),
    "to_shape_same_upper": _case(
        "TransposedConvolutionToShape",
        (2, 4, 4, 3),
        (4, 1, 4, 3),
        group=2,
        strides=[2, 3],
        auto_pad=AutoPad.SAME_UPPER,
        output_padding=[1, 0],
        output_shape=(8, 7),
    ),
    "to_shape_same_lower_nxc": _case(
        "TransposedConvolutionToShape",
        (1, 2, 3, 3),
        (2, 3, 4, 3),
        strides=[2, 2],
        auto_pad=AutoPad.SAME_LOWER,
        output_shape=(5, 6),
        **NXC,
    ),
    "to_shape_same_upper_beyond_full": _case(
        "TransposedConvolutionToShape", (1, 1, 2), (1, 1, 2), auto_pad=AutoPad.SAME_UPPER, output_shape=(6,), bias=False
    ),
    "to_shape_empty": _case("TransposedConvolutionToShape", (1, 1, 2, 2), (1, 1, 2, 2), output_shape=(0, 3)),
    "add_depthwise": _case(
        "TransposedConvolutionAdd", (1, 3, 3, 9), (3, 1, 4, 4), group=3, strides=[2, 2], pads=[1] * 4
    ),
    "add_kernel_is_stride": _case("TransposedConvolutionAdd", (1, 3, 3, 19), (3, 9, 2, 2), strides=[2, 2]),
    "add_nxc": _case("TransposedConvolutionAdd", (1, 3, 4, 5), (3, 18, 3, 3), strides=[2, 2], pads=[1, 1, 0, 1], **NXC),
    "add_few_positions": _case("TransposedConvolutionAdd", (2, 20, 2, 1), (20, 33, 4, 4), strides=[2, 2], pads=[1] * 4),
    "add_image_head": _case("TransposedConvolutionAdd", (1, 6, 5, 18), (6, 3, 4, 4), strides=[2, 2], pads=[1] * 4),
    "conv_plain": _case("Convolution", (2, 3, 5, 4), (2, 3, 3, 2), bias=False),
    "conv_1d_stride_dilation": _case("Convolution", (1, 2, 9), (3, 2, 3), strides=[2], dilations=[2], pads=[3, 1]),
    "conv_groups_asymmetric": _case(
        "Convolution", (1, 4, 5, 5), (6, 2, 3, 2), group=2, strides=[2, 1], pads=[0, 2, 1, 0]
    ),
    "conv_3d_ndhwc": _case(
        "Convolution",
        (1, 2, 3, 2, 3),
        (2, 2, 2, 1, 2),
        pads=[1, 0, 0, 0, 1, 1],
        x_perm=[0, 4, 1, 2, 3],
        w_perm=[4, 3, 0, 1, 2],
        y_perm=[0, 2, 3, 4, 1],
    ),
    "conv_same_upper": _case("Convolution", (1, 2, 5, 6), (2, 2, 4, 3), strides=[2, 3], auto_pad=AutoPad.SAME_UPPER),
    "conv_same_lower": _case("Convolution", (1, 2, 5, 6), (2, 2, 4, 3), strides=[2, 1], auto_pad=AutoPad.SAME_LOWER),
    "conv_padding_only_rows": _case("Convolution", (1, 1, 3), (1, 1, 1), pads=[4, 3], strides=[2]),
    "conv_empty_batch": _case("Convolution", (0, 2, 3, 3), (2, 2, 2, 2)),
}

CASES |= {
    f"add_{name}": dataclasses.replace(CASES[f"transposed_{name}"], op="TransposedConvolutionAdd")
    for name in (
        "plain",
        "1d_stride_and_padding",
        "groups_dilation_asymmetric_pads",
        "depthwise_nxc",
        "3d_odd_layout",
        "empty_input",
        "pads_leave_nothing",
        "empty_batch",
    )
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests that take `op_case` over every case, and tests that take `dtype` over every element type."""
    if "op_case" in metafunc.fixturenames:
        metafunc.parametrize("op_case", CASES.values(), ids=CASES.keys())
    if "dtype" in metafunc.fixturenames:
        metafunc.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())


@pytest.fixture(scope="session")
def cases() -> dict[str, Case]:
    return CASES


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    return _case


def _begin_and_sizes(case: Case) -> tuple[list[int], list[int]]:
    """The begin paddings and the spatial sizes of the result, from the words of the definition."""
    at = case.attributes
    begin, sizes = [], []
    for i in range(case.axes):
        size, s = case.x[2 + i], at["strides"][i]
        extent = (case.w[2 + i] - 1) * at["dilations"][i] + 1
        full = max(s * (size - 1) + extent, 0)
        lower = at.get("auto_pad") == AutoPad.SAME_LOWER
        if case.op in ("TransposedConvolution", "TransposedConvolutionAdd"):
            begin.append(at["pads"][i])
            sizes.append(full - at["pads"][i] - at["pads"][i + case.axes] + at["output_padding"][i])
            continue
        if case.op == "TransposedConvolutionToShape":
            assert case.output_shape is not None
            y, fixed = case.output_shape[i], at["pads_begin"][i]
            total = max(full + at["output_padding"][i] - y, 0)
        elif at["auto_pad"] == AutoPad.NOTSET:
            fixed = at["pads"][i]
            y, total = (size + fixed + at["pads"][i + case.axes] - extent) // s + 1, 0
        else:
            y, fixed = (size + s - 1) // s, 0
            total = max((y - 1) * s + extent - size, 0)
        begin.append(fixed if at["auto_pad"] == AutoPad.NOTSET else total - total // 2 if lower else total // 2)
        sizes.append(y)
    return begin, sizes


def _terms(
    case: Case, begin: list[int], position: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The (input position, kernel position) pairs that meet in one output position."""
    at = case.attributes
    for tap in itertools.product(*map(range, case.w[2:])):
        source = []
        for y, k, s, d, b, size in zip(position, tap, at["strides"], at["dilations"], begin, case.x[2:], strict=True):
            if case.op == "Convolution":
                i, remainder = y * s - b + k * d, 0
            else:
                i, remainder = divmod(y + b - k * d, s)
            if remainder or not 0 <= i < size:
                break
            source.append(i)
        else:
            yield tuple(source), tap


@dataclasses.dataclass(frozen=True)
class Exact:
    """The exact result of a case (integers: low bits kept; floats: float64), and what a float result may differ by."""

    values: np.ndarray
    tolerance: np.ndarray | None

    def check(self, actual: np.ndarray) -> None:
        assert actual.shape == self.values.shape
        if self.tolerance is None:
            np.testing.assert_array_equal(actual, self.values)
        else:
            assert actual.size == 0 or np.max(np.abs(actual.astype(np.float64) - self.values) - self.tolerance) <= 0


def _define(case: Case, inputs: list[np.ndarray | None]) -> Exact:
    """The result as nested loops over single numbers, gathering for each output position."""
    physical_x, physical_w, bias = inputs[0], inputs[1], inputs[-1]
    assert physical_x is not None
    assert physical_w is not None
    dtype = physical_x.dtype
    number = int if dtype.kind in "iu" else float
    x = np.transpose(physical_x, case.attributes["x_perm"])
    w = np.transpose(physical_w, case.attributes["w_perm"])
    begin, sizes = _begin_and_sizes(case)
    group, m = case.attributes["group"], case.channels
    per_in, per_out = case.x[1] // group, m // group
    values = np.zeros((case.x[0], m, *sizes), object)
    magnitude = np.zeros(values.shape)
    count = 1
    for position in itertools.product(*map(range, sizes)):
        terms = list(_terms(case, begin, position))
        count = max(count, len(terms) * per_in + 1)
        for n, oc in itertools.product(range(case.x[0]), range(m)):
            g = oc // per_out
            total = number(bias[oc]) if bias is not None else number(0)
            size = abs(float(total))
            for source, tap in terms:
                for c in range(per_in):
                    weight = (oc, c, *tap) if case.op == "Convolution" else (g * per_in + c, oc - g * per_out, *tap)
                    product = number(x[(n, g * per_in + c, *source)]) * number(w[weight])
                    total += product
                    size += abs(float(product))
            values[(n, oc, *position)] = total
            magnitude[(n, oc, *position)] = size
    values = np.transpose(values, case.attributes["y_perm"])
    magnitude = np.transpose(magnitude, case.attributes["y_perm"])
    residual = inputs[2] if case.op == "TransposedConvolutionAdd" else None
    rounded = np.abs(values.astype(np.float64))  # what is rounded to the tensor's type before a residual is added
    if residual is not None:
        values = values + residual.astype(object)
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        low = np.vectorize(lambda v: v % (1 << bits), otypes=[np.uint64])(values)
        return Exact(low.astype(f"u{dtype.itemsize}").view(dtype), None)
    sums = float(np.finfo(np.float64 if dtype == np.float64 else np.float32).eps)
    own = float(ml_dtypes.finfo(dtype).eps)
    values = values.astype(np.float64)
    # Each of `count` roundings in the accumulation type, then one to the tensor's type.
    tolerance = count * sums * magnitude + own * np.abs(values) + float(ml_dtypes.finfo(dtype).smallest_subnormal)
    if residual is not None:
        tolerance += own * rounded
    return Exact(values, tolerance)


@pytest.fixture(scope="session")
def define() -> Callable[[Case, list[np.ndarray | None]], Exact]:
    """The definition of our ops, in nested loops; it shares no code with ``ortconv``."""
    return _define


@pytest.fixture(scope="session")
def library() -> str:
    """Path of the native library, without which the tests that need it fail."""
    return library_path()
