"""Compares the outputs of a model with the expected ones."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.frontend.source_graph import SourceGraph, SourceValue
from ortconv.model_io.input_data import Array, is_float

__all__ = ["ROUNDINGS", "Comparison", "Tolerance", "compare", "computed", "default_tolerance", "tolerance_of"]

_FLOAT_TOLERANCE = 2e-5
_DOUBLE_TOLERANCE = 1e-11
_UNITS = 10
"""How much larger the tolerance is than what rounding may do to a number."""

ROUNDINGS = 5
"""How many roundings to a narrow type a result may be off: sums are formed in float32, each tensor rounds once."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How one tensor compares.

    An element's relative error is its absolute error divided by the expected value or, if that is larger, by the root
    mean square of all that is expected: an element that cancels out is measured against its neighbours.

    Attributes:
        name: The tensor.
        dtype: The expected type.
        shape: The expected shape.
        max_abs: Largest absolute error; infinite where an element is NaN or infinite on one side only.
        max_rel: Largest relative error, likewise.
        tolerance: Relative error up to which elements agree.
        wrong: Number of elements that do not, among them those that are NaN or infinite on one side only.
        worst: Index of the worst element, its expected and its actual value; None if nothing differs. Elements beyond
            the tolerance that rounding explains are not considered where others are wrong.
        spread: Largest relative distance of equally good results from the expected one, where elements are beyond the
            tolerance; None where nobody asked for it.
        rounded: Number of elements beyond the tolerance that are as close to the expected ones as those results are.
        problem: What prevents a comparison (a missing tensor, another type or shape), or "".
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    wrong: int = 0
    worst: tuple[tuple[int, ...], float, float] | None = None
    problem: str = ""
    spread: float | None = None
    rounded: int = 0

    @property
    def agrees(self) -> bool:
        """Whether every element is within the tolerance."""
        return not self.problem and not self.wrong


def compare(
    name: str, actual: Array | None, expected: Array, tolerance: float, alternatives: Iterable[Array] = ()
) -> Comparison:
    """Compares a tensor.

    Args:
        name: How the result calls it.
        actual: What was computed; None if nothing was.
        expected: What is right.
        tolerance: Relative error up to which elements agree.
        alternatives: Results as good as the expected one, the first of them without errors of rounding; they are asked
            for as long as elements differ.
    """
    dtype = str(expected.dtype)
    problem = ""
    if actual is None:
        problem = "the model does not compute it"
    elif actual.shape != expected.shape:
        problem = f"shape {list(actual.shape)} instead of {list(expected.shape)}"
    elif dtype != str(actual.dtype):
        problem = f"type {actual.dtype} instead of {dtype}"
    if actual is None or problem:
        return Comparison(name, dtype, expected.shape, np.inf, np.inf, tolerance, expected.size, None, problem)
    return _values(name, dtype, actual, expected, tolerance, alternatives)


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Relative errors up to which elements agree.

    Attributes:
        floats: For floats.
        integers: For integers and bools.
        unit: Relative rounding error of a number; 0 if rounding explains no difference.
    """

    floats: float
    integers: float = 0.0
    unit: float = 0.0

    def of(self, expected: Array) -> float:
        """Returns the one that applies."""
        return self.floats if is_float(expected) else self.integers


def default_tolerance(graph: SourceGraph, finest: ir.DataType) -> Tolerance:
    """Returns the tolerance that the types of a graph's intermediate results ask for.

    Integers are exact. Sums of products in float32 may be formed in any order: 2e-5. Where a tensor that depends on an
    input has a narrower type, five roundings to it. In float64 throughout, 1e-11.

    Args:
        graph: The source.
        finest: The type in which what is expected is computed at best.
    """
    return tolerance_of({finest, *(value.dtype for value in computed(graph))})


def tolerance_of(types: Iterable[ir.DataType], single: float = _FLOAT_TOLERANCE) -> Tolerance:
    """Returns the tolerance that element types ask for: five roundings to the narrowest float of less than 32 bits.

    Args:
        types: Those of a model's tensors.
        single: What is allowed where there is none; with float64 alone it is 1e-11.
    """
    floats = {dtype for dtype in types if dtype.is_floating_point()}
    narrow = [_epsilon(dtype) for dtype in floats if dtype.bitwidth < 32]
    widest = _DOUBLE_TOLERANCE if floats == {ir.DataType.DOUBLE} else single
    allowed = ROUNDINGS * max(narrow) if narrow else widest
    return Tolerance(allowed, unit=allowed / _UNITS)


def _epsilon(dtype: ir.DataType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy()).eps)  # type: ignore[no-untyped-call]


def computed(graph: SourceGraph) -> Iterable[SourceValue]:
    """Yields the values that depend on an input."""
    seen = set(graph.inputs)
    yield from graph.inputs
    for node in graph.nodes:
        if not seen.isdisjoint(node.inputs):
            seen.update(node.outputs)
            yield from node.outputs


def _values(
    name: str, dtype: str, actual: Array, expected: Array, tolerance: float, alternatives: Iterable[Array]
) -> Comparison:
    got, want = actual.astype(np.float64), expected.astype(np.float64)
    same = (actual == expected) | (np.isnan(got) & np.isnan(want))
    finite = np.isfinite(got) & np.isfinite(want)
    with np.errstate(all="ignore"):
        # Integers beyond 2**53 may differ and still be the same float64.
        error = np.where(same, 0.0, np.maximum(np.abs(got - want), 1.0 if _is_integer(actual) else 0.0))
        error = np.where(same | finite, error, np.inf)
        scale = np.maximum(np.abs(want), _rms(want))
        relative = np.where(np.isfinite(error), np.where(error == 0.0, 0.0, error / scale), np.inf)
    beyond = ~same & (~finite | (relative > tolerance))
    wrong, spread = beyond, None
    if beyond.any():
        equally_good = (array[beyond] for array in alternatives if array.shape == beyond.shape)
        among, spread = _among(actual[beyond], expected[beyond], equally_good, scale[beyond])
        wrong = beyond.copy()
        wrong[beyond] = ~among
    worst = None
    if not same.all():
        considered = np.where(wrong, relative, -1.0) if wrong.any() else relative
        at = tuple(int(i) for i in np.unravel_index(np.argmax(considered), want.shape))
        worst = (at, float(want[at]), float(got[at]))
    return Comparison(
        name,
        dtype,
        expected.shape,
        float(np.max(error, initial=0.0)),
        float(np.max(relative, initial=0.0)),
        tolerance,
        int(np.count_nonzero(wrong)),
        worst,
        spread=spread,
        rounded=int(np.count_nonzero(beyond & ~wrong)),
    )


def _among(
    actual: Array, expected: Array, equally_good: Iterator[Array], scale: Array
) -> tuple[npt.NDArray[np.bool_], float | None]:
    """Tells which elements are one of equally good ones, or as far from the exact or the expected ones.

    Evaluations are taken until all are; the second result is how far these are from the expected ones.
    """
    found: npt.NDArray[np.bool_] = actual == expected
    exact = next(equally_good, None)
    if exact is None:
        return found, None
    low = high = np.zeros(exact.shape)
    spread = 0.0
    is_float = not _is_integer(actual)
    with np.errstate(all="ignore"):
        for each in itertools.chain([exact], equally_good):
            found |= actual == each
            distances = np.abs(each.astype(np.float64) - expected.astype(np.float64)) / scale
            spread = max(spread, float(np.max(distances[np.isfinite(distances)], initial=0.0)))
            if is_float:
                error = each.astype(np.float64) - exact.astype(np.float64)
                low, high = np.minimum(low, error), np.maximum(high, error)
                margin = (high - low) / 2
                for center in (exact, expected):
                    error = actual.astype(np.float64) - center.astype(np.float64)
                    found |= (error >= low - margin) & (error <= high + margin)
            if found.all():
                break
    return found, spread


def _rms(values: Array) -> float:
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0.0))
    return largest * float(np.sqrt(np.mean(np.square(finite / largest)))) if largest else 0.0


def _is_integer(array: Array) -> bool:
    return ir.DataType.from_numpy(array.dtype).is_integer()
