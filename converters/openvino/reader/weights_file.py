"""Constants of the weights file: memory-mapped, and copied only if ONNX stores the type differently."""

from __future__ import annotations

import mmap
import pathlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.converters.openvino.lib.element_types import BITS, DTYPES, NARROW
from ortconv.errors import ModelFormatError
from ortconv.graph.annotations import BYTES_IN_FILE, LOCATION_USES
from ortconv.model_io.regular_files import open_regular

__all__ = ["Weights"]

_Bytes = npt.NDArray[np.uint8]


class Weights:
    """The ``.bin`` file beside an ``.xml``; opened when a constant is first asked for.

    Args:
        path: The file.
        in_memory: Read it whole instead of mapping it, because it is deleted before its constants.
    """

    def __init__(self, path: pathlib.Path, *, in_memory: bool = False) -> None:
        self._path = path
        self._in_memory = in_memory
        self._bytes: _Bytes | None = None
        self._uses: dict[int, dict[str, object]] = {}

    @property
    def size(self) -> int:
        """Bytes of the file, 0 where no constant was asked for."""
        return 0 if self._bytes is None else self._bytes.size

    def tensor(self, precision: str, shape: Sequence[int], offset: int, size: int, stated: int) -> ir.TensorProtocol:
        """Returns a constant.

        Args:
            precision: A key of `DTYPES` or `NARROW`.
            shape: Its dimensions.
            offset: Where its bytes begin.
            size: How many shape and type take.
            stated: How many bytes the model states, at least `size`; OpenVINO requires the file to have them.

        Raises:
            ModelFormatError: The file is missing or unreadable.
            EOFError: The bytes lie outside the file; the argument says how.
        """
        raw = self._slice(offset, stated)[:size] if size else np.empty(0, np.uint8)
        if precision in NARROW:
            spread = _unpack_pairs if precision == "u2" else _unpack_triples
            four = ir.DataType.UINT4
            return ir.LazyTensor(lambda: ir.Tensor(spread(raw, shape), four), four, ir.Shape(shape), cache=True)
        dtype, bits = DTYPES[precision], BITS[precision]
        if dtype == ir.DataType.BOOL:
            # One element per bit, first bit highest; or one per byte, where any byte but 0 is true.
            unpack = _unpack_bits if bits == 1 else _unpack_bytes
            return ir.LazyTensor(lambda: ir.Tensor(unpack(raw, shape)), dtype, ir.Shape(shape), cache=True)
        tensor = (
            ir.PackedTensor(raw, dtype, shape=shape)
            if bits == 4
            else ir.Tensor(raw.view(dtype.numpy()).reshape(shape), dtype)
        )
        if size and not self._in_memory:
            BYTES_IN_FILE.set(tensor, (self._path, offset))
            LOCATION_USES.set(tensor, self._uses.setdefault(offset, {}))
        return tensor

    def _slice(self, offset: int, size: int) -> _Bytes:
        if self._bytes is None:
            self._bytes = self._open()
        if offset + size > self._bytes.size:
            raise EOFError(
                f"bytes {offset} to {offset + size} lie outside {self._path.name}, which has {self._bytes.size} bytes."
            )
        return self._bytes[offset : offset + size]

    def _open(self) -> _Bytes:
        try:
            with open_regular(self._path) as file:
                if self._in_memory:
                    return np.frombuffer(file.read(), np.uint8)
                if self._path.stat().st_size == 0:
                    return np.empty(0, np.uint8)
                return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        except FileNotFoundError as error:
            raise ModelFormatError(str(self._path), "", "the file with the model's weights does not exist.") from error
        except (OSError, ValueError) as error:
            raise ModelFormatError(
                str(self._path), "", f"the weights cannot be read: {getattr(error, 'strerror', None) or error}."
            ) from error


def _unpack_bits(raw: _Bytes, shape: Sequence[int]) -> npt.NDArray[np.bool_]:
    return np.unpackbits(raw, count=int(np.prod(shape, dtype=np.int64))).astype(np.bool_).reshape(shape)


def _unpack_bytes(raw: _Bytes, shape: Sequence[int]) -> npt.NDArray[np.bool_]:
    return raw.astype(np.bool_).reshape(shape)


def _unpack_pairs(raw: _Bytes, shape: Sequence[int]) -> npt.NDArray[Any]:
    """Returns integers of two bits, the first one in the lowest bits of a byte."""
    pairs = raw[:, np.newaxis] >> np.array([0, 2, 4, 6], np.uint8) & 3
    return _first(pairs, shape)


def _unpack_triples(raw: _Bytes, shape: Sequence[int]) -> npt.NDArray[Any]:
    """Returns integers of three bits; of eight, two bytes hold the lower two, a third the highest, from the top."""
    groups = raw.reshape(-1, 3)
    lower = groups[:, :2, np.newaxis] >> np.array([6, 4, 2, 0], np.uint8) & 3
    return _first(lower.reshape(-1, 8) | np.unpackbits(groups[:, 2:], axis=1) << 2, shape)


def _first(numbers: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
    return numbers.ravel()[: int(np.prod(shape, dtype=np.int64))].reshape(shape).astype(ml_dtypes.uint4)
