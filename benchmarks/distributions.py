"""Random shapes of transposed convolutions, from two distributions that the docstrings of their functions state.

`draw_any` covers all that a transposed convolution can be; `draw_models` has the sizes that networks have. A seed names
one list of shapes of each.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence

from benchmarks.shapes import Shape

__all__ = ["DISTRIBUTIONS", "draw_any", "draw_models", "has_gaps", "shapes"]

_BATCHES, _CHANNELS = 16, 4098
_SIZES = {1: 4096, 2: 160, 3: 32}
_KERNELS = {1: 4096, 2: 24, 3: 7}
"""Largest sizes of an axis of the input and of the kernel, by number of axes."""

_FLOPS = 2e9
_ELEMENTS = 1 << 24
"""Most operations of a shape, and most elements of its input, weights or output."""


def _log_uniform(rng: random.Random, most: int, least: int = 1) -> int:
    """Returns an integer whose logarithm is uniform, `least` and `most` among the possible ones."""
    return min(most, int(math.exp(rng.uniform(math.log(least), math.log(most + 1)))))


def draw_any(rng: random.Random) -> Shape:
    """Draws any shape.

    - Axes: 1 (two in five), 2 (two in five) or 3 (one in five).
    - Batch: 1 (three in five), otherwise log-uniform up to 16.
    - Input sizes: log-uniform, up to 4096, 160 and 32 for 1, 2 and 3 axes. One axis in eight has size 1.
    - Kernel sizes: log-uniform, up to 4096, 24 and 7. Two of three kernels have the same size on every axis.
    - Strides: 1, 2, the kernel size, a half or a quarter of it, or log-uniform up to it; one shape in eight has strides
      of up to twice the kernel's extent, which leave gaps between windows.
    - Dilations: 1 (four in five), otherwise 2 to 8.
    - Padding: 0 (half of the shapes), otherwise up to half of the kernel's extent on each side.
    - Output padding: 0 (four in five), otherwise below the stride.
    - Channels, inputs and outputs each: log-uniform up to 4098; one shape in six is depthwise, one in six has 2 to 32
      groups. One shape in five has 1 to 8 outputs per group.
    """
    axes = rng.choice((1, 1, 2, 2, 3))
    size = tuple(1 if rng.random() < 1 / 8 else _log_uniform(rng, _SIZES[axes]) for _ in range(axes))
    same = rng.random() < 2 / 3
    first = _log_uniform(rng, _KERNELS[axes])
    kernel = tuple(first if same else _log_uniform(rng, _KERNELS[axes]) for _ in range(axes))
    dilation = (1 if rng.random() < 0.8 else rng.randint(2, 8),) * axes
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    kind = rng.choice(("one", "two", "kernel", "half", "quarter", "any", "any", "gaps"))
    stride = tuple(_stride(rng, kind, k, e) for k, e in zip(kernel, extent, strict=True))
    pad = (0,) * axes if rng.random() < 0.5 else tuple(rng.randint(0, e // 2) for e in extent)
    extra = tuple(0 if rng.random() < 0.8 else rng.randrange(s) for s in stride)
    group, inputs, outputs = _channels(rng)
    batch = 1 if rng.random() < 0.6 else _log_uniform(rng, _BATCHES)
    return Shape("", batch, inputs, outputs, size, kernel, stride, pad, extra, group, dilation)


def _stride(rng: random.Random, kind: str, kernel: int, extent: int) -> int:
    return {
        "one": 1,
        "two": 2,
        "kernel": kernel,
        "half": max(1, kernel // 2),
        "quarter": max(1, kernel // 4),
        "any": _log_uniform(rng, kernel),
        "gaps": rng.randint(extent + 1, 2 * extent),
    }[kind]


def _channels(rng: random.Random) -> tuple[int, int, int]:
    """Draws groups, inputs and outputs."""
    kind = rng.choice(("depthwise", "grouped", "one", "one", "one", "one"))
    if kind == "depthwise":
        channels = _log_uniform(rng, _CHANNELS)
        return channels, channels, channels
    group = rng.randint(2, 32) if kind == "grouped" else 1
    most = _CHANNELS // group
    outputs = rng.randint(1, 8) if rng.random() < 0.2 else _log_uniform(rng, most)
    return group, group * _log_uniform(rng, most), group * outputs


_MODEL_WIDTHS = (8, 12, 16, 21, 32, 40, 48, 64, 72, 96, 128, 144, 160, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048)
_MODEL_OUTPUTS = (1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 17, 19, 21, *(c for c in _MODEL_WIDTHS if c <= 512))
_MODEL_LENGTHS = (25, 50, 64, 100, 128, 200, 256, 300, 400, 500, 800, 1000, 1600, 2000, 4000)
_MODEL_HEIGHTS = (1, 2, 4, 7, 8, 10, 13, 14, 16, 20, 26, 28, 32, 38, 40, 52, 56, 64, 72, 80, 96, 112, 128, 160, 200)
_MODEL_CUBES = (2, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)


def draw_models(rng: random.Random) -> Shape:
    """Draws a shape with sizes that networks have.

    - Axes: 1 (one in four), 2 (three in five) or 3 (three in twenty).
    - Channels: inputs usual widths of layers, 8 to 2048; outputs half of them (half of the shapes), otherwise usual
      widths or numbers of classes and colours, 1 to 512. One shape in twenty is depthwise, one in twenty has 2 to 32
      groups, where these divide the channels.
    - Strides: 1 to 16 in 1-D, 1 to 8 (most 2) in 2-D, 1 or 2 in 3-D.
    - Kernels: 1, 2 or 4 strides, one more than 1 or 2 strides, 3 or 5.
    - Sizes: usual lengths of 25 to 4000; heights of 1 to 200 with widths as large, 16/9 or 3/4 of them; depths of 2
      to 32 with height and width each as large, twice as large, or 8.
    - Dilations: 1, or 2 (one in twenty-five).
    - Padding: what makes the output as many times as large as the input as the stride says (half of the shapes), that
      rounded up, or 0; output padding, where such an output needs it, in three of five shapes.
    - Batch: 1 (three in four), otherwise 2 to 32.
    """
    axes = rng.choices((1, 2, 3), (25, 60, 15))[0]
    size, stride, kernel = (_model_line, _model_image, _model_volume)[axes - 1](rng)
    inputs = rng.choice(_MODEL_WIDTHS)
    outputs = max(1, inputs // 2) if rng.random() < 0.5 else rng.choice(_MODEL_OUTPUTS)
    group, kind = 1, rng.random()
    if kind < 0.05:
        group = outputs = inputs
    elif kind < 0.1:
        group = math.gcd(rng.choice((2, 4, 8, 16, 32)), math.gcd(inputs, outputs))
    dilation = 2 if rng.random() < 0.04 else 1
    rest = (kernel - 1) * dilation + 1 - stride  # by how much the output exceeds the input times the stride
    pad = rng.choice((max(0, rest // 2), max(0, rest // 2), 0, max(0, (rest + 1) // 2)))
    extra = 2 * pad - rest if rng.random() < 0.6 and 0 <= 2 * pad - rest < stride else 0
    batch = rng.choices((1, 2, 4, 8, 16, 32), (75, 5, 5, 5, 5, 5))[0]
    each = [(value,) * axes for value in (kernel, stride, pad, extra)]
    return Shape("", batch, inputs, outputs, size, *each, group, (dilation,) * axes)


def _model_line(rng: random.Random) -> tuple[tuple[int, ...], int, int]:
    """Draws size, stride and kernel of one axis."""
    stride = rng.choice((1, 2, 2, 3, 4, 4, 5, 8, 8, 10, 16))
    kernel = rng.choice((stride, 2 * stride, 2 * stride, 2 * stride + 1, stride + 1, 4 * stride))
    return (rng.choice(_MODEL_LENGTHS),), stride, kernel


def _model_image(rng: random.Random) -> tuple[tuple[int, ...], int, int]:
    stride = rng.choice((1, 2, 2, 2, 2, 2, 2, 3, 4, 4, 8))
    kernel = rng.choice((stride, *(2 * stride,) * 3, stride + 1, 2 * stride + 1, max(3, stride), max(5, stride)))
    height = rng.choice(_MODEL_HEIGHTS)
    width = rng.choice((height, height, height, max(1, height * 16 // 9), max(1, height * 3 // 4)))
    return (height, width), stride, kernel


def _model_volume(rng: random.Random) -> tuple[tuple[int, ...], int, int]:
    stride = rng.choice((1, 2, 2, 2))
    kernel = rng.choice((stride, 2 * stride, 2 * stride, 3))
    depth = rng.choice(_MODEL_CUBES)
    others = [rng.choice((depth, 2 * depth, 8)) for _ in range(2)]
    return (depth, *others), stride, kernel


DISTRIBUTIONS: Mapping[str, Callable[[random.Random], Shape]] = {"any": draw_any, "models": draw_models}
"""By name."""


def shapes(seed: int, count: int, distribution: str = "any") -> list[Shape]:
    """Returns the first shapes of a seed that have an output, and are no larger than 2 GFLOP and 64 MiB a tensor."""
    draw, rng = DISTRIBUTIONS[distribution], random.Random(seed)
    found: list[Shape] = []
    while len(found) < count:
        shape = draw(rng)
        tensors = (shape.x_shape, shape.w_shape, shape.y_shape)
        if min(shape.y_shape) < 1 or max(map(math.prod, tensors)) > _ELEMENTS or not 0 < shape.flops <= _FLOPS:
            continue
        found.append(dataclasses.replace(shape, name=_name(len(found), shape)))
    return found


def _name(number: int, shape: Shape) -> str:
    def each(values: Sequence[int]) -> str:
        return "x".join(map(str, values[:1] if len(set(values)) == 1 else values))

    parts = [f"{number}: {shape.axes}-D k{each(shape.kernels)} s{each(shape.strides)}"]
    parts += [f"d{each(shape.dilations)}"] if max(shape.dilations) > 1 else []
    parts += [f"p{each(shape.pads)}"] if any(shape.pads) else []
    parts += [f"op{each(shape.extras)}"] if any(shape.extras) else []
    parts += [f"{shape.inputs}>{shape.outputs}", *([f"g{shape.group}"] if shape.group > 1 else [])]
    parts += ["x".join(map(str, shape.size)), *([f"b{shape.batch}"] if shape.batch > 1 else [])]
    return " ".join(parts)


def has_gaps(shape: Shape) -> bool:
    """Tells whether a stride exceeds the kernel's extent, so that some outputs are the bias alone."""
    extents = ((k - 1) * d + 1 for k, d in zip(shape.kernels, shape.dilations, strict=True))
    return any(stride > extent for stride, extent in zip(shape.strides, extents, strict=True))
