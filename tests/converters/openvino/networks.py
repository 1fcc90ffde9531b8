"""Small networks with seeded weights, in OpenVINO's own ops: what people convert, at a size that tests can afford."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
from openvino import opset1, opset3, opset4, opset5, opset6, opset7, opset8, opset11, opset12, opset13

from tests.converters.openvino.live import Feed, numbers

__all__ = ["NETWORKS", "Network"]

F32 = np.float32


@dataclasses.dataclass(frozen=True)
class Network:
    """A network.

    Attributes:
        name: What it is called.
        build: Makes its output, or a list of them, from its Parameters.
        feeds: Data; the dims in which they differ are dynamic.
        bound: Units in the last place of the largest value by which an output may be off.
    """

    name: str
    build: Callable[..., Any]
    feeds: tuple[Feed, ...]
    bound: float = 512

    def __str__(self) -> str:
        return self.name


class Weights:
    """Makes seeded weights, each of its own."""

    def __init__(self) -> None:
        self._seed = 100

    def __call__(self, *shape: int, scale: float | None = None) -> Any:
        """Returns a constant whose products keep the size of what they are multiplied with."""
        self._seed += 1
        size = scale or 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else shape[0])
        return opset1.constant(numbers(*shape, seed=self._seed, low=-1.7, high=1.7) * F32(size))

    def array(self, *shape: int, low: float, high: float) -> np.ndarray:
        self._seed += 1
        return numbers(*shape, seed=self._seed, low=low, high=high)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def conv(w: Weights, x: Any, channels: int, filters: int, size: int = 3, stride: int = 1, bias: bool = True) -> Any:
    pad = [size // 2] * 2
    value = opset1.convolution(x, w(filters, channels, size, size), [stride] * 2, pad, pad, [1, 1])
    return opset1.add(value, w(1, filters, 1, 1)) if bias else value


def depthwise(w: Weights, x: Any, channels: int, size: int = 3, stride: int = 1) -> Any:
    pad = [size // 2] * 2
    return opset1.group_convolution(x, w(channels, 1, 1, size, size), [stride] * 2, pad, pad, [1, 1])


def upscaled(w: Weights, x: Any, channels: int, filters: int) -> Any:
    value = opset1.convolution_backprop_data(
        x, w(channels, filters, 2, 2, scale=0.3), [2, 2], None, [0, 0], [0, 0], [1, 1]
    )
    return opset1.add(value, w(1, filters, 1, 1))


def batch_norm(w: Weights, x: Any, channels: int) -> Any:
    gamma, variance = (w.array(channels, low=0.5, high=1.5) for _ in range(2))
    beta, mean = (w.array(channels, low=-0.5, high=0.5) for _ in range(2))
    return opset5.batch_norm_inference(x, gamma, beta, mean, variance, 1e-5)


def linear(w: Weights, x: Any, inputs: int, outputs: int) -> Any:
    return opset1.add(opset1.matmul(x, w(outputs, inputs), False, True), w(outputs))


def layer_norm(w: Weights, x: Any, size: int) -> Any:
    value = opset6.mvn(x, ints(-1), True, 1e-5, "inside_sqrt")
    return opset1.add(opset1.multiply(value, w.array(size, low=0.5, high=1.5)), w(size))


def rms_norm(w: Weights, x: Any, size: int) -> Any:
    mean = opset1.reduce_mean(opset1.power(x, F32(2)), ints(-1), True)
    root = opset1.divide(F32(1), opset1.sqrt(opset1.add(mean, F32(1e-6))))
    return opset1.multiply(opset1.multiply(x, root), w.array(size, low=0.5, high=1.5))


def heads(x: Any, count: int) -> Any:
    """Returns [batch, count, steps, size] of [batch, steps, count * size]."""
    size = x.get_output_partial_shape(0)[2].get_length() // count
    return opset1.transpose(opset1.reshape(x, ints(0, 0, count, size), True), ints(0, 2, 1, 3))


def attention(w: Weights, x: Any, size: int, count: int, *, causal: bool) -> Any:
    q, k, v = (heads(linear(w, x, size, size), count) for _ in range(3))
    value = opset13.scaled_dot_product_attention(q, k, v, causal=causal)
    return linear(w, opset1.reshape(opset1.transpose(value, ints(0, 2, 1, 3)), ints(0, 0, size), True), size, size)


def transformer(w: Weights, x: Any, size: int, *, causal: bool, mode: str = "erf") -> Any:
    x = opset1.add(x, attention(w, layer_norm(w, x, size), size, 4, causal=causal))
    inner = linear(w, layer_norm(w, x, size), size, 2 * size)

    return opset1.add(x, linear(w, opset7.gelu(inner, mode), 2 * size, size))


def u_net(x: Any) -> Any:
    w = Weights()

    def block(x: Any, channels: int, filters: int) -> Any:
        return opset1.relu(batch_norm(w, conv(w, x, channels, filters, bias=False), filters))

    def down(x: Any) -> Any:
        return opset8.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)

    first = block(x, 3, 8)
    second = block(down(first), 8, 16)
    bottom = block(down(second), 16, 32)
    up = block(opset1.concat([upscaled(w, bottom, 32, 16), second], 1), 32, 16)
    up = block(opset1.concat([upscaled(w, up, 16, 8), first], 1), 16, 8)
    return opset1.sigmoid(conv(w, up, 8, 2, 1))


def res_net(x: Any) -> Any:
    w = Weights()

    def block(x: Any, channels: int, filters: int, stride: int) -> Any:
        y = opset1.relu(batch_norm(w, conv(w, x, channels, filters, 3, stride, False), filters))
        y = batch_norm(w, conv(w, y, filters, filters, bias=False), filters)
        short = x if stride == 1 else batch_norm(w, conv(w, x, channels, filters, 1, stride, False), filters)
        return opset1.relu(opset1.add(y, short))

    x = opset1.relu(batch_norm(w, conv(w, x, 3, 8, 7, 2, False), 8))
    x = opset8.max_pool(x, [2, 2], [1, 1], [1, 1], [1, 1], [3, 3]).output(0)
    x = block(block(x, 8, 8, 1), 8, 16, 2)
    pooled = opset1.reduce_mean(x, ints(2, 3), True)
    return opset8.softmax(linear(w, opset1.reshape(pooled, ints(0, -1), True), 16, 10), -1)


def mobile_net(x: Any) -> Any:
    w = Weights()

    def block(x: Any, channels: int, stride: int) -> Any:
        wide = 4 * channels
        y = opset4.hswish(batch_norm(w, conv(w, x, channels, wide, 1, bias=False), wide))
        y = opset1.clamp(batch_norm(w, depthwise(w, y, wide, 3, stride), wide), 0, 6)
        gate = opset1.relu(conv(w, opset1.reduce_mean(y, ints(2, 3), True), wide, channels, 1))
        y = opset1.multiply(y, opset5.hsigmoid(conv(w, gate, channels, wide, 1)))
        y = batch_norm(w, conv(w, y, wide, channels, 1, bias=False), channels)
        return opset1.add(x, y) if stride == 1 else y

    x = block(block(opset4.hswish(conv(w, x, 3, 8, 3, 2)), 8, 1), 8, 2)
    pooled = opset8.adaptive_avg_pool(x, ints(2, 3))
    return opset5.log_softmax(linear(w, opset1.reshape(pooled, ints(0, -1), True), 48, 5), -1)


def vision_transformer(x: Any) -> Any:
    w = Weights()
    patches = opset1.convolution(x, w(32, 3, 4, 4), [4, 4], [0, 0], [0, 0], [1, 1])
    y = opset1.transpose(opset1.reshape(patches, ints(0, 0, -1), True), ints(0, 2, 1))
    batch = opset8.gather(opset3.shape_of(x), ints(0), np.array(0))
    token = opset3.broadcast(w(1, 1, 32), opset1.concat([batch, ints(1, 32)], 0))
    y = opset1.add(opset1.concat([token, y], 1), w(1, 17, 32))
    y = transformer(w, transformer(w, y, 32, causal=False), 32, causal=False)
    return linear(w, opset8.gather(layer_norm(w, y, 32), np.array(0), np.array(1)), 32, 7)


def language_model(ids: Any) -> Any:
    w = Weights()
    table = w(50, 32)
    steps = opset8.gather(opset3.shape_of(ids), np.array(1), np.array(0))
    places = opset4.range(np.array(0), steps, np.array(1), "i64")
    x = opset1.add(opset8.gather(table, ids, np.array(0)), opset8.gather(w(64, 32), places, np.array(0)))
    x = transformer(w, transformer(w, x, 32, causal=True, mode="tanh"), 32, causal=True, mode="tanh")
    return opset1.matmul(layer_norm(w, x, 32), table, False, True)


def compressed(w: Weights, outputs: int, inputs: int, bits: openvino.Type, group: int) -> Any:
    """Returns weights as integers in groups, with a scale and a zero point for each."""
    shape = (outputs, inputs // group, group)
    high = 15 if bits == openvino.Type.u4 else 255
    values = w.array(*shape, low=0, high=high).round().astype(int)
    points = w.array(outputs, inputs // group, 1, low=high // 3, high=high // 2).round().astype(int)
    data, point = (
        opset1.convert(openvino.op.Constant(bits, openvino.Shape(list(a.shape)), a.ravel().tolist()), "f16")
        for a in (values, points)
    )
    scale = (w.array(outputs, inputs // group, 1, low=0.5, high=1) * F32(2 / high)).astype(np.float16)
    whole = opset1.multiply(opset1.subtract(data, point), opset1.constant(scale))
    return opset1.convert(opset1.reshape(whole, ints(outputs, inputs), False), "f32")


def compressed_language_model(bits: openvino.Type) -> Callable[..., Any]:
    def build(ids: Any) -> Any:
        w = Weights()

        def dense(x: Any, outputs: int, inputs: int) -> Any:
            return opset1.matmul(x, compressed(w, outputs, inputs, bits, 16), False, True)

        x = opset8.gather(w(50, 32), ids, np.array(0))
        h = rms_norm(w, x, 32)
        q, k, v = (heads(dense(h, 32, 32), 4) for _ in range(3))
        value = opset13.scaled_dot_product_attention(q, k, v, causal=True)
        x = opset1.add(
            x, dense(opset1.reshape(opset1.transpose(value, ints(0, 2, 1, 3)), ints(0, 0, 32), True), 32, 32)
        )
        h = rms_norm(w, x, 32)
        return opset1.add(x, dense(opset1.multiply(opset4.swish(dense(h, 64, 32)), dense(h, 64, 32)), 32, 64))

    return build


def tagger(ids: Any, lengths: Any) -> Any:
    # With dynamic sizes the plugin does not heed lengths below the number of steps.
    w = Weights()
    x = opset8.gather(w(30, 16), ids, np.array(0))
    batch = opset8.gather(opset3.shape_of(ids), ints(0), np.array(0))
    state = opset3.broadcast(F32(0), opset1.concat([batch, ints(2, 12)], 0))
    out = opset5.lstm_sequence(
        x, state, state, lengths, w(2, 48, 16), w(2, 48, 12), w(2, 48), 12, "bidirectional"
    ).output(0)
    joined = opset1.reshape(opset1.transpose(out, ints(0, 2, 1, 3)), ints(0, 0, 24), True)
    return opset5.log_softmax(linear(w, joined, 24, 5), -1)


def auto_encoder(x: Any, noise: Any) -> list[Any]:
    w = Weights()
    y = opset1.prelu(conv(w, x, 1, 8, 3, 2), np.array([0.2], F32))
    y = opset1.elu(conv(w, y, 8, 16, 3, 2), 1.0)
    mean, log = opset1.split(linear(w, opset1.reshape(y, ints(0, -1), True), 256, 8), np.array(1), 2).outputs()
    z = opset1.add(mean, opset1.multiply(opset1.exp(opset1.multiply(log, F32(0.5))), noise))
    y = opset1.reshape(linear(w, z, 4, 256), ints(-1, 16, 4, 4), False)
    y = opset12.group_normalization(upscaled(w, y, 16, 8), w.array(8, low=0.5, high=1.5), w(8), 4, 1e-5)
    return [opset1.tanh(upscaled(w, opset1.selu(y, np.array([1.67], F32), np.array([1.05], F32)), 8, 1)), mean, log]


def diffusion_block(x: Any, step: Any) -> Any:
    w = Weights()

    def normal(x: Any) -> Any:
        return opset4.swish(opset12.group_normalization(x, w.array(16, low=0.5, high=1.5), w(16), 4, 1e-5))

    rates = np.exp(-np.log(1e4) * np.arange(8) / 8).astype(F32)
    angles = opset1.multiply(opset1.unsqueeze(opset1.convert(step, "f32"), ints(1)), rates)
    time = opset1.concat([opset1.sin(angles), opset1.cos(angles)], 1)
    shift = opset1.unsqueeze(linear(w, opset4.swish(time), 16, 16), ints(2, 3))
    x = conv(w, x, 3, 16)
    x = opset1.add(x, conv(w, normal(opset1.add(conv(w, normal(x), 16, 16), shift)), 16, 16))
    flat = opset1.transpose(opset1.reshape(x, ints(0, 0, -1), True), ints(0, 2, 1))
    mixed = opset1.transpose(attention(w, flat, 16, 2, causal=False), ints(0, 2, 1))
    x = opset1.add(x, opset1.reshape(mixed, opset3.shape_of(x), False))
    scales = np.array([2, 2], F32)
    return opset11.interpolate(x, scales, "nearest", "scales", axes=ints(2, 3), nearest_mode="floor",
                               coordinate_transformation_mode="asymmetric")  # fmt: skip


def detector(x: Any) -> list[Any]:
    w = Weights()
    for channels, filters in ((3, 8), (8, 16), (16, 16)):
        x = opset4.mish(conv(w, x, channels, filters, 3, 2))
    y = opset1.transpose(opset1.reshape(conv(w, x, 16, 24, 1), ints(0, 3, 8, -1), True), ints(0, 3, 1, 2))
    flat = opset1.reshape(y, ints(0, -1, 8), True)
    centre, size, scores = opset1.variadic_split(flat, np.array(2), ints(2, 2, 4)).outputs()
    half = opset1.multiply(opset1.power(opset1.multiply(opset1.sigmoid(size), F32(2)), F32(2)), F32(8))
    boxes = opset1.concat([opset1.subtract(centre, half), opset1.add(centre, half)], 2)
    best = opset1.reduce_max(opset1.sigmoid(scores), ints(2), False)
    values, indices = opset3.topk(best, np.array(5), 1, "max", "value").outputs()
    return [values, opset8.gather_nd(boxes, opset1.unsqueeze(indices, ints(2)), 1)]


def conv_next(x: Any) -> Any:
    w = Weights()
    x = opset1.convolution(x, w(16, 3, 4, 4), [4, 4], [0, 0], [0, 0], [1, 1])
    y = layer_norm(w, opset1.transpose(depthwise(w, x, 16, 7), ints(0, 2, 3, 1)), 16)

    y = linear(w, opset7.gelu(linear(w, y, 16, 64), "erf"), 64, 16)
    x = opset1.add(x, opset1.transpose(opset1.multiply(y, w(16)), ints(0, 3, 1, 2)))
    return linear(w, layer_norm(w, opset1.reduce_mean(x, ints(2, 3), False), 16), 16, 4)


NETWORKS = (
    Network("U-Net", u_net, ([numbers(1, 3, 16, 16)], [numbers(2, 3, 24, 32)])),
    Network("ResNet", res_net, ([numbers(1, 3, 32, 32)], [numbers(2, 3, 48, 40)])),
    Network("MobileNet", mobile_net, ([numbers(1, 3, 16, 24)], [numbers(2, 3, 32, 48)])),
    Network("vision transformer", vision_transformer, ([numbers(1, 3, 16, 16)], [numbers(3, 3, 16, 16)])),
    Network("language model", language_model, ([numbers(1, 7, dtype=np.int64, low=0, high=49)],
                                               [numbers(2, 11, dtype=np.int64, low=0, high=49)])),
    Network("language model of 4-bit weights", compressed_language_model(openvino.Type.u4),
            ([numbers(1, 7, dtype=np.int64, low=0, high=49)], [numbers(2, 5, dtype=np.int64, low=0, high=49)])),
    Network("language model of 8-bit weights", compressed_language_model(openvino.Type.u8),
            ([numbers(1, 7, dtype=np.int64, low=0, high=49)], [numbers(2, 5, dtype=np.int64, low=0, high=49)])),
    Network("tagger", tagger, ([numbers(1, 6, dtype=np.int64, low=0, high=29), np.array([6])],
                               [numbers(3, 9, dtype=np.int64, low=0, high=29), np.array([9, 9, 9])])),
    Network("variational auto-encoder", auto_encoder, ([numbers(1, 1, 16, 16), numbers(1, 4)],
                                                       [numbers(3, 1, 16, 16), numbers(3, 4)])),
    Network("diffusion block", diffusion_block, ([numbers(1, 3, 8, 8), np.array([7])],
                                                 [numbers(2, 3, 6, 10), np.array([3, 900])])),
    Network("detector", detector, ([numbers(1, 3, 32, 32)], [numbers(2, 3, 48, 64)])),
    Network("ConvNeXt", conv_next, ([numbers(1, 3, 16, 16)], [numbers(2, 3, 24, 20)])),
)  # fmt: skip
