"""The six convolution ops, computed with `BilinearMap`."""

from __future__ import annotations

import functools

from ortconv.onednn.bilinear import BilinearMap
from ortconv.onednn.call import Array, Call
from ortconv.onednn.op_schema import define
from ortconv.onednn.shape_rules import convolved, given

_ATTRIBUTES = "strides pads_begin pads_end dilations auto_pad? groups? data_format? weights_format?"


def _map(call: Call) -> BilinearMap:
    return BilinearMap(
        strides=call.ints("strides"),
        dilations=call.ints("dilations"),
        groups=int(call.number("groups", 1)),
        auto_pad=call.text("auto_pad", "none"),
        begin=call.ints("pads_begin"),
        end=call.ints("pads_end"),
    )


@define("ConvTransposeBackwardData", "diff_dst weights", "diff_src", _ATTRIBUTES, shapes=convolved)
@define("Convolution", "src weights bias?", "dst", _ATTRIBUTES, shapes=convolved)
def _convolution(call: Call) -> Array:
    m = _map(call)
    src, weights = call.ncx(call.input(0)), call.weights(call.input(1))
    begin, end = m.convolution_pads(src.shape[2:], weights.shape[2:])
    sizes = m.convolution_sizes(src.shape[2:], weights.shape[2:], begin, end)
    return _biased(call, call.own(m.to_small(src, weights, begin, sizes)))


@define(
    "ConvolutionBackwardData",
    "diff_dst weights dst_shape?",
    "diff_src",
    f"{_ATTRIBUTES} output_padding? dst_shape?",
    shapes=given("dst_shape", 2),
)
def _convolution_backward_data(call: Call) -> Array:
    m = _map(call)
    diff_dst, weights = call.ncx(call.input(0)), call.weights(call.input(1))
    shape = call.target("dst_shape")
    sizes = shape[1:-1] if call.channels_last else shape[2:]
    if call.semantics == "runtime":
        begin, _ = m.convolution_pads(sizes, weights.shape[2:])
    else:
        extra = call.ints("output_padding") or [0] * len(sizes)
        full = m.padded_sizes(diff_dst.shape[2:], weights.shape[2:])
        totals = [size - y + more for size, y, more in zip(full, sizes, extra, strict=True)]
        begin, _ = m.split(totals, same_upper_pads_end_more=False)
    return call.own(m.to_big(diff_dst, weights, begin, sizes))


@define(
    "ConvolutionBackwardWeights",
    "src diff_dst weights_shape?",
    "diff_weights",
    f"{_ATTRIBUTES} weights_shape?",
    shapes=given("weights_shape", 2),
)
def _convolution_backward_weights(call: Call) -> Array:
    m = _map(call)
    src, diff_dst = call.ncx(call.input(0)), call.ncx(call.input(1))
    kernel = _kernel(call)
    begin, _ = m.convolution_pads(src.shape[2:], kernel)
    return call.own_weights(m.to_weights(diff_dst, src, begin, kernel))


@define(
    "ConvTranspose",
    "src weights bias?",
    "dst",
    f"{_ATTRIBUTES} output_padding?",
    shapes=functools.partial(convolved, transpose=True),
)
def _conv_transpose(call: Call) -> Array:
    m = _map(call)
    src, weights = call.ncx(call.input(0)), call.weights(call.input(1))
    begin, end = m.transpose_pads(weights.shape[2:])
    extra = call.ints("output_padding") or [0] * len(begin)
    full = m.padded_sizes(src.shape[2:], weights.shape[2:])
    sizes = [size - b - e + more for size, b, e, more in zip(full, begin, end, extra, strict=True)]
    return _biased(call, call.own(m.to_big(src, weights, begin, sizes)))


@define(
    "ConvTransposeBackwardWeights",
    "src diff_dst weights_shape?",
    "diff_weights",
    f"{_ATTRIBUTES} weights_shape?",
    shapes=given("weights_shape", 2),
)
def _conv_transpose_backward_weights(call: Call) -> Array:
    m = _map(call)
    src, diff_dst = call.ncx(call.input(0)), call.ncx(call.input(1))
    kernel = _kernel(call)
    if call.semantics == "runtime":  # The library pads as for a convolution of the small tensor.
        begin, _ = m.convolution_pads(src.shape[2:], kernel)
    else:
        begin, _ = m.transpose_pads(kernel)
    return call.own_weights(m.to_weights(src, diff_dst, begin, kernel))


def _kernel(call: Call) -> list[int]:
    shape = call.target("weights_shape")
    return shape[:-2] if call.kernel_first else shape[2:]


def _biased(call: Call, data: Array) -> Array:
    bias = call.optional(2)
    return data if bias is None else data + call.per_channel(bias, data.ndim)
