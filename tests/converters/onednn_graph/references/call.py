"""One op at work: data, attributes and declared results, in the format's own words. Nothing here imports ortconv."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

Shape = tuple[int, ...]

DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8_e4m3": ml_dtypes.float8_e4m3fn,
    "f8_e5m2": ml_dtypes.float8_e5m2,
    "s64": np.int64,
    "s32": np.int32,
    "s8": np.int8,
    "u8": np.uint8,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    "boolean": np.bool_,
}
"""Element types by their names in the format."""


@dataclasses.dataclass(frozen=True)
class Slot:
    """What a file says about a result: its element type, and its shape where that is known."""

    dtype: str
    shape: Shape | None = None


@dataclasses.dataclass(frozen=True)
class Call:
    """An op at work.

    Attributes:
        kind: Op kind.
        inputs: Data of the inputs, in their own types.
        attributes: Plain values; those that nobody set are absent.
        outputs: The results that are wanted.
        semantics: "spec" or "runtime", where specification and library differ.
    """

    kind: str
    inputs: Sequence[np.ndarray]
    attributes: Mapping[str, Any]
    outputs: Sequence[Slot]
    semantics: str = "spec"

    def x(self, index: int = 0) -> np.ndarray:
        """An input in float64."""
        return self.inputs[index].astype(np.float64)

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.inputs)

    def get(self, name: str, default: Any) -> Any:
        """An attribute, or its default."""
        return self.attributes.get(name, default)

    @property
    def channel_axis(self) -> int:
        """Where the channels stand: last unless data_format is NCX."""
        return 1 if self.get("data_format", "NXC") == "NCX" else -1

    def ncx(self, array: np.ndarray) -> np.ndarray:
        """Takes data to [N, C, spatial...]."""
        return np.moveaxis(array, self.channel_axis, 1)

    def own(self, array: np.ndarray) -> np.ndarray:
        """Takes data from [N, C, spatial...] to the op's format."""
        return np.moveaxis(array, 1, self.channel_axis)


def stored(array: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds a result to an element type; to integers to nearest even, with saturation."""
    array = np.asarray(array)
    if dtype in ("s32", "s8", "u8", "s4", "u4") and array.dtype.kind == "f":
        info = ml_dtypes.iinfo(DTYPES[dtype])
        array = np.clip(np.rint(array), info.min, info.max)
    with np.errstate(all="ignore"):
        return array.astype(DTYPES[dtype])
