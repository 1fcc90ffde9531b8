"""Files that ortconv writes, one for each thing that a tool may stumble over, and what they compute."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx.parser
import openvino
from openvino import opset1, opset3, opset5, opset6, opset8

import ortconv
from tests.converters.openvino.live import numbers
from tests.converters.openvino.weights import weight_models
from tests.folders import SOURCES
from tests.passes.quantization.quantized_layers import IMAGE, UNSIGNED, convolved, int8_weights, rounded
from tests.running import run

__all__ = ["FILES", "File"]

_CONFIG = {
    "INFERENCE_NUM_THREADS": 1,
    "INFERENCE_PRECISION_HINT": "f32",
    "LP_TRANSFORMS_MODE": "NO",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}

Feeds = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class File:
    """A file.

    Attributes:
        network: What it is made of.
        target: The nodes that it may have.
    """

    network: str
    target: str

    def __str__(self) -> str:
        return f"{self.network}, {self.target or 'plugin'}"

    @property
    def has_ours(self) -> bool:
        """Whether it holds nodes of ours, and so functions."""
        return bool(self.model.functions)

    @functools.cached_property
    def model(self) -> onnx.ModelProto:
        """What ortconv writes."""
        return _model(self.network, self.target)

    @functools.cached_property
    def feeds(self) -> Feeds:
        """Data for its inputs."""
        names = [each.name for each in self.model.graph.input]
        return dict(zip(names, _NETWORKS[self.network][1](), strict=True))

    @functools.cached_property
    def results(self) -> list[np.ndarray]:
        """What it computes in an ONNX Runtime without our library."""
        return run(self.model, self.feeds, "none")

    def expected(self) -> list[np.ndarray]:
        """Returns what OpenVINO computes of its source, or ONNX Runtime where that is an ONNX file."""
        source = _source(self.network)
        if isinstance(source, onnx.ModelProto):
            return run(source, self.feeds, "none")
        request = openvino.Core().compile_model(source, "CPU", _CONFIG).create_infer_request()
        states = {state.name: state for state in request.query_state()}
        given = [data for name, data in self.feeds.items() if name not in states]
        for name, state in states.items():
            state.state = openvino.Tensor(self.feeds[name])
        request.infer(given)
        found = [np.array(tensor.data) for tensor in request.output_tensors]
        return [*found, *(np.array(each.state.data) for each in request.query_state())]


def _rounded_layers() -> openvino.Model:
    """A layer between roundings, and one whose result nothing rounds."""
    x = opset1.parameter([1, *IMAGE[1:]], np.float32)
    first = opset1.relu(convolved(rounded(x), int8_weights(8, 8, 3, 3)))
    return openvino.Model([opset1.sigmoid(convolved(rounded(first, UNSIGNED), int8_weights(4, 8, 3, 3, seed=1)))], [x])


def _halves() -> openvino.Model:
    """Convolutions by weights that are stored as float16."""
    x = opset1.parameter([-1, 8, -1, -1], np.float32)
    stored = [opset1.constant(numbers(8, 8, 3, 3, dtype=np.float16, seed=seed)) for seed in (0, 1)]
    kernels = [opset1.convert(each, "f32") for each in stored]
    y = opset1.relu(opset1.convolution(x, kernels[0], [1, 1], [1, 1], [1, 1], [1, 1]))
    return openvino.Model([opset1.convolution_backprop_data(y, kernels[1], [2, 2])], [x])


def _exact() -> openvino.Model:
    """Convolutions in double, to a size of the run and back."""
    x, size = opset1.parameter([-1, 2, -1, -1], np.float64), opset1.parameter([2], np.int64)
    kernels = [opset1.constant(numbers(2, 3, 3, 3, seed=seed).astype(np.float64)) for seed in (0, 1)]
    grid = ([2, 2], [0, 0], [0, 0], [1, 1])
    y = opset1.convolution_backprop_data(x, kernels[0], grid[0], size, *grid[1:], auto_pad="same_upper")
    return openvino.Model([opset1.convolution(y, kernels[1], *grid, "same_lower")], [x, size])


def _control_flow() -> openvino.Model:
    """A state, a Loop that changes it, and an If with transposed convolutions to sizes of the run in it."""
    x = opset1.parameter([1, 2, -1, -1], np.float32)
    state = opset6.read_value(opset1.constant(np.zeros((1, 2), np.float32)), "memory", openvino.Type.f32, [1, 2])
    inner = opset1.parameter([1, 2], np.float32)
    after = opset1.tanh(opset1.add(inner, np.float32(1)))
    body = openvino.Model([opset1.result(each) for each in (opset1.constant(np.array(True)), after)], [inner])
    sizes = opset3.shape_of(x)
    trips = opset8.gather(sizes, np.array(2), np.array(0))
    loop = opset5.loop(trips.output(0), opset1.constant(np.array(True)).output(0))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(inner, state.output(0), body.results[1].output(0))
    last = loop.get_iter_value(body.results[1].output(0), -1)
    bodies = [_to_twice(size) for size in (3, 4)]
    choice = opset8.if_op(opset1.greater(opset1.reduce_sum(x, np.array([0, 1, 2, 3]), False), np.float32(0)).output(0))
    choice.set_then_body(bodies[0])
    choice.set_else_body(bodies[1])
    choice.set_input(x.output(0), *(each.get_parameters()[0] for each in bodies))
    chosen = choice.set_output(*(each.results[0] for each in bodies))
    return openvino.Model([opset1.result(chosen)], [opset6.assign(opset1.multiply(last, np.float32(2)), "memory")], [x])


def _to_twice(kernel: int) -> openvino.Model:
    data = opset1.parameter([1, 2, -1, -1], np.float32)
    sizes = opset1.multiply(opset8.gather(opset3.shape_of(data), np.array([2, 3]), np.array(0)), np.array([2, 2]))
    weights = opset1.constant(numbers(2, 2, kernel, kernel))
    grid = ([3, 3], sizes, [0, 0], [0, 0], [1, 1])
    return openvino.Model([opset1.convolution_backprop_data(data, weights, *grid, auto_pad="same_lower")], [data])


def _residual() -> onnx.ModelProto:
    """Another tool's file: a transposed convolution with a residual, an activation and a crop around it."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        net (float[N,2,H,W] x, float[N,3,H,W] r) => (float[N,3,P,Q] y) {
            c = ConvTranspose <pads = [1, 1, 1, 1]> (x, w)
            s = Add (c, r)
            a = Relu (s)
            y = ConvTranspose <strides = [2, 2], output_shape = [9, 7]> (a, v)
        }"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers(2, 3, 3, 3), "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers(3, 3, 3, 3, seed=1), "v"))
    return model


def _compressed(element: openvino.Type, *, grouped: bool) -> openvino.Model:
    return weight_models.model(element, "f32", zero_point=True, grouped=grouped)


_IMAGE = (1, 2, 5, 4)
_NETWORKS: Mapping[str, tuple[Callable[[], object], Callable[[], list[np.ndarray]]]] = {
    "sizes of the run": (
        lambda: openvino.Core().read_model(SOURCES / "unet_decoder.xml"),
        lambda: [numbers(1, 32, 5, 4), numbers(1, 16, 9, 8), numbers(1, 8, 17, 15)],
    ),
    "quantised": (_rounded_layers, lambda: [numbers(*IMAGE)]),
    "int8 weights": (lambda: _compressed(openvino.Type.i8, grouped=False), lambda: [numbers(3, 8)]),
    "int4 weights": (lambda: _compressed(openvino.Type.u4, grouped=True), lambda: [numbers(3, 8)]),
    "float16 weights": (_halves, lambda: [numbers(*IMAGE)]),
    "control flow": (_control_flow, lambda: [numbers(*_IMAGE), numbers(1, 2)]),
    "double": (_exact, lambda: [numbers(*_IMAGE).astype(np.float64), np.array([9, 8])]),
    "optimized": (_residual, lambda: [numbers(1, 2, 4, 3), numbers(1, 3, 4, 3)]),
}
"""What makes the source of each, and the data for it."""

FILES = [
    *(File("sizes of the run", target) for target in ("auto", "onnx", "plugin")),
    *(File(name, target) for name in list(_NETWORKS)[1:-1] for target in ("auto", "onnx")),
    File("optimized", ""),
]


@functools.cache
def _source(network: str) -> object:
    return _NETWORKS[network][0]()


def _model(network: str, target: str) -> onnx.ModelProto:
    source = _source(network)
    if isinstance(source, onnx.ModelProto):
        return ortconv.optimize(source)
    return ortconv.convert(source, target=target)  # type: ignore[arg-type]
