"""How far equally good evaluations in floating point are apart.

The operations between known values and a wanted one are evaluated repeatedly, with all values perturbed within rounding
error. The results are as accurate as the first: a correct model may differ as much as they do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

import numpy as np

from ortconv.errors import ExecutionError
from ortconv.model_io.input_data import Array, is_float
from ortconv.verification.ordering import SELECTING, SORTING, chosen, reordered
from ortconv.verification.steps import Step

__all__ = ["alternatives", "rounded"]

_RUNS = 8
"""Evaluations with errors: one with every value too large, one with every value too small, the others at random."""
_TERMS = 16
"""A sum of n terms is off by (1 + sqrt(n)) / _TERMS roundings of the sum of its terms' absolute values."""
_BESIDE_ONE = 8
"""A small number that is formed of numbers near 1 is off by their rounding / _BESIDE_ONE."""
_BOUNDED = frozenset(
    {"Acos", "Asin", "Atan", "Cos", "Erf", "GRUCell", "GRUSequence", "HSigmoid", "HardSigmoid", "LSTMCell"}
    | {"LSTMSequence", "RNNCell", "RNNSequence", "Sigmoid", "Sin", "SoftPlus", "SoftSign", "Tanh"}
)
"""Operations that form their results of numbers near 1, however small these are."""
_GATED = frozenset({"GELU", "Gelu", "HSwish", "HardSwish", "Mish", "Swish"})
"""Operations that multiply their input by a number formed so."""
_QUANTIZERS = frozenset({"FakeQuantize"})
"""Operations that place their input between bounds, which may be larger."""
_SAMPLED = frozenset({"DeformableConvolution", "GridSample", "Interpolate", "ROIAlign", "ROIAlignRotated"})
"""Operations that read their first input at places that they compute in floats."""
_SUMS = frozenset(
    {"AdaptiveAvgPool", "AvgPool", "Convolution", "ConvolutionBackpropData", "ConvolutionBackwardData", "ConvTranspose"}
    | {"CumSum", "GroupConvolution", "GroupConvolutionBackpropData", "MatMul", "ReduceMean", "ReduceSum"}
)
"""Operations that add products of their inputs."""
_MEANS = frozenset({"AdaptiveAvgPool", "AvgPool", "ReduceMean"})
"""Operations that may add equal terms, whose roundings do not cancel."""


def alternatives(
    steps: Sequence[Step], wanted: Hashable, known: Mapping[Hashable, Array], unit: float, actual: Array
) -> Iterator[Array]:
    """Yields what evaluations as good as the source's own compute for a value.

    Args:
        steps: What computes it, in order.
        wanted: The value.
        known: Exact values.
        unit: Relative rounding error of a value.
        actual: What is to be judged; equal elements are ordered as it orders them.

    Yields:
        One array for each evaluation, the first without errors. None if an operation cannot be evaluated by itself.
    """
    inputs = {key for step in steps for key in step.inputs if key in known}
    exact = {key: known[key] for key in inputs}
    scales: dict[Hashable, Array | float] = {}
    try:
        for step in steps:
            exact.update(zip(step.outputs, step.run(_inputs(step, exact), False), strict=True))
            scales.update((key, _scale(step, exact, key)) for key in step.outputs)
    except ExecutionError:
        return
    last = next(step for step in steps if wanted in step.outputs)
    if last.op_type in SELECTING:
        results = [exact[wanted], *_inexact(steps, wanted, exact, inputs, scales, unit)]
        yield from (results[0], chosen(results, 10 * unit, actual))
        return
    yield exact[wanted]
    if last.op_type in _MEANS:
        yield from _added_in_order(last, exact)
    if last.op_type in SORTING and wanted == last.outputs[1]:
        yield reordered(last, exact, 0.0 if last.inputs[0] in known else 2 * unit, actual)
    yield from _inexact(steps, wanted, exact, inputs, scales, unit)


def _inexact(
    steps: Sequence[Step],
    wanted: Hashable,
    exact: Mapping[Hashable, Array],
    inputs: Collection[Hashable],
    scales: Mapping[Hashable, Array | float],
    unit: float,
) -> Iterator[Array]:
    """Yields a value as evaluations with errors compute it."""
    for run in range(_RUNS):
        noise = _Noise(unit, run)
        values = {**exact, **{key: noise.on(exact[key], 0.0) for key in inputs}}
        moved = set(inputs)
        try:
            for step in steps:
                if step.op_type in _QUANTIZERS or not moved.isdisjoint(step.inputs):
                    results = step.run(_disturbed(step, values, noise), False)
                    pairs = zip(step.outputs, results, strict=True)
                    values.update((key, noise.on(array, scales[key])) for key, array in pairs)
                    moved.update(step.outputs)
        except ExecutionError:
            continue
        yield values[wanted]


def _added_in_order(step: Step, values: Mapping[Hashable, Array]) -> Iterator[Array]:
    """Yields means over the last axes whose terms are added one after the other in float32."""
    data, result = values.get(step.inputs[0]), values[step.outputs[0]]
    if data is None or data.dtype != np.float32 or not result.size:
        return
    outer = next((axis for axis in range(data.ndim + 1) if math.prod(data.shape[:axis]) == result.size), None)
    if outer is None or data.shape[:outer] != result.shape[:outer]:
        return
    terms = data.reshape(result.size, -1)
    sums = np.add.accumulate(terms, axis=1)[:, -1]
    yield (sums / np.float32(terms.shape[1])).reshape(result.shape)


def rounded(values: Mapping[str, Array], unit: float) -> dict[str, Array]:
    """Returns values perturbed at random within rounding error."""
    noise = _Noise(unit, _RUNS)
    return {name: noise.on(array, 0.0) for name, array in values.items()}


class _Noise:
    """Errors of one evaluation.

    Args:
        unit: Relative rounding error of a value.
        run: Number of the evaluation.
    """

    def __init__(self, unit: float, run: int) -> None:
        self._unit = unit
        self._sign = (1.0, -1.0)[run] if run < 2 else None
        self._random = np.random.default_rng(run)

    def on(self, array: Array, scale: Array | float) -> Array:
        """Returns floats perturbed by the rounding error of numbers larger by `scale`; other types unchanged."""
        if not is_float(array):
            return array
        width = np.float64 if array.dtype == np.float64 else np.float32
        wide = array.astype(width, copy=False)
        with np.errstate(all="ignore"):
            error = np.abs(wide)
            error += np.asarray(scale, width)
            error *= self._unit * (self._sign or self._random.random(array.shape, width) * 2 - 1)
            return np.asarray(wide + error).astype(array.dtype, copy=False)


def _inputs(step: Step, values: Mapping[Hashable, Array]) -> list[Array | None]:
    return [None if key is None else values[key] for key in step.inputs]


def _disturbed(step: Step, values: Mapping[Hashable, Array], noise: _Noise) -> list[Array | None]:
    inputs = _inputs(step, values)
    if step.op_type in _QUANTIZERS:
        data, low, high = (step.data(index) if array is None else array for index, array in enumerate(inputs[:3]))
        if data is not None and low is not None and high is not None:
            inputs[0] = noise.on(data, np.maximum(np.abs(low), np.abs(high)).astype(np.float64))
    return inputs


def _scale(step: Step, values: Mapping[Hashable, Array], output: Hashable) -> Array | float:
    """Returns how large numbers are that rounding enters a result by, apart from its inputs and itself."""
    result = values[output]
    if step.op_type in _BOUNDED:
        return 1 / _BESIDE_ONE
    data = next((values[key] for key in step.inputs if key is not None), None)
    if data is None or not data.size or not result.size:
        return 0.0
    if step.op_type in _QUANTIZERS:
        bounds = [array for array in map(step.data, (3, 4)) if array is not None]
        return max((float(np.max(np.abs(array))) for array in bounds), default=0.0) / _BESIDE_ONE
    if step.op_type in _GATED:
        return np.abs(data.astype(np.float64)) / _BESIDE_ONE
    if step.op_type in _SAMPLED:
        return max(data.shape[2:], default=1) * float(np.max(np.abs(data.astype(np.float64)))) / _TERMS
    if step.op_type in _SUMS:
        (sums,) = step.run(_inputs(step, values), True)
        return np.asarray(sums * ((1.0 + _terms(step, values, result) ** 0.5) / _TERMS), np.float64)
    return 0.0


def _terms(step: Step, values: Mapping[Hashable, Array], result: Array) -> float:
    """Returns how many products a sum of them has at most."""
    data, weights = (*(step.data(i) if key is None else values[key] for i, key in enumerate(step.inputs[:2])), None)[:2]
    if data is None:
        return 1
    if step.op_type == "CumSum":
        return max(data.shape, default=1)
    if weights is None or weights.dtype.kind in "iu":
        return data.size / result.size
    if step.op_type == "MatMul":
        return max(data.shape[-2:], default=1)
    return weights.size / max(1, min(weights.shape[:2], default=1))
