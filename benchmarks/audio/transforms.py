"""Fourier transforms by themselves: convolutions with Fourier filters, overlap-add, and the nodes STFT and DFT."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from benchmarks.audio.bases import forward_filters, hann, inverse_filters
from benchmarks.audio.problems import INPUT, Array, ModelBuilder, Problem

if TYPE_CHECKING:
    import onnx

__all__ = ["DftNode", "ForwardLayer", "InverseLayer", "OverlapAddLayer", "SplitInverse", "StftNode", "transforms"]

_EXACT, _INEXACT = 1e-5, 1e-2
"""Errors that are allowed: of sums of products; and of the DFT of ONNX Runtime where n_fft is no power of two."""

_SAMPLES = 48000
"""Length of the sounds: three seconds at 16 kHz."""


@dataclasses.dataclass(frozen=True)
class _Transform:
    """A transform of frames that overlap.

    Attributes:
        n_fft: Length of a frame.
        hop: Distance between two frames.
        frames: How many there are.
        batch: How many sounds.
    """

    group: ClassVar[str]
    allowed_error: ClassVar[float] = _EXACT

    n_fft: int
    hop: int
    frames: int
    batch: int = 1

    @property
    def name(self) -> str:
        """What tables show."""
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        return f"{self.group}, n_fft {self.n_fft}, hop {self.hop}, {self.frames} frames{batch}"

    @property
    def bins(self) -> int:
        """Number of frequencies."""
        return self.n_fft // 2 + 1

    @property
    def length(self) -> int:
        """Number of samples that the frames span."""
        return (self.frames - 1) * self.hop + self.n_fft

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (self.batch, 1, self.length)

    def data(self) -> Array:
        """Returns the input."""
        return np.random.default_rng(1).standard_normal(self.shape, np.float32)

    def _frames(self, x: Array) -> Array:
        """Returns a view [batch, frames, n_fft] of sounds [batch, length]."""
        frames: Array = np.lib.stride_tricks.sliding_window_view(x, self.n_fft, axis=-1)[:, :: self.hop]
        return frames

    def _overlap_add(self, frames: Array) -> Array:
        """Adds up frames [batch, frames, n_fft], and returns [batch, 1, length]."""
        pieces = -(-self.n_fft // self.hop)
        result = np.zeros((self.batch, self.frames + pieces, self.hop), frames.dtype)
        for piece in range(pieces):
            part = frames[:, :, piece * self.hop : (piece + 1) * self.hop]
            result[:, piece : piece + self.frames, : part.shape[2]] += part
        return result.reshape(self.batch, 1, -1)[:, :, : self.length]


class ForwardLayer(_Transform):
    """A Conv whose filters are windowed cosines and sines."""

    group = "STFT as Conv"

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder = ModelBuilder()
        filters = builder.constant(forward_filters(self.n_fft)[:, np.newaxis])
        return builder.model(self.shape, builder.node("Conv", INPUT, filters, strides=[self.hop]))

    def scipy(self, x: Array, threads: int) -> Callable[[], Array]:
        """Returns a program of SciPy."""
        import scipy.fft

        window = hann(self.n_fft).astype(np.float32)
        result = np.empty((self.batch, 2 * self.bins, self.frames), np.float32)

        def run() -> Array:
            spectrum = scipy.fft.rfft(self._frames(x[:, 0]) * window, axis=-1, workers=threads).swapaxes(1, 2)
            result[:, : self.bins], result[:, self.bins :] = spectrum.real, spectrum.imag
            return result

        return run


class InverseLayer(_Transform):
    """A ConvTranspose whose filters are cosines and sines, for real and imaginary parts in one tensor."""

    group = "inverse STFT as ConvTranspose"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (self.batch, 2 * self.bins, self.frames)

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder = ModelBuilder()
        filters = builder.constant(inverse_filters(self.n_fft)[:, np.newaxis])
        return builder.model(self.shape, builder.node("ConvTranspose", INPUT, filters, strides=[self.hop]))

    def scipy(self, x: Array, threads: int) -> Callable[[], Array]:
        """Returns a program of SciPy."""
        import scipy.fft

        window = hann(self.n_fft).astype(np.float32)
        spectrum = np.empty((self.batch, self.frames, self.bins), np.complex64)

        def run() -> Array:
            spectrum.real, spectrum.imag = x[:, : self.bins].swapaxes(1, 2), x[:, self.bins :].swapaxes(1, 2)
            frames = scipy.fft.irfft(spectrum, self.n_fft, axis=-1, workers=threads)
            return self._overlap_add(frames * window)

        return run


class SplitInverse(InverseLayer):
    """The same as two ConvTranspose nodes, one for real and one for imaginary parts, whose results are added."""

    group = "inverse STFT as two ConvTranspose"

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder = ModelBuilder()
        halves = builder.nodes("Split", 2, INPUT, axis=1, num_outputs=2)
        filters = np.split(inverse_filters(self.n_fft)[:, np.newaxis], 2)
        sums = [
            builder.node("ConvTranspose", half, builder.constant(each), strides=[self.hop])
            for half, each in zip(halves, filters, strict=True)
        ]
        return builder.model(self.shape, builder.node("Add", *sums))


class OverlapAddLayer(_Transform):
    """A ConvTranspose whose weights are a diagonal matrix: the window."""

    group = "overlap-add as ConvTranspose"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (self.batch, self.n_fft, self.frames)

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder = ModelBuilder()
        weights = builder.constant(np.diag(hann(self.n_fft))[:, np.newaxis])
        return builder.model(self.shape, builder.node("ConvTranspose", INPUT, weights, strides=[self.hop]))

    def scipy(self, x: Array, threads: int) -> Callable[[], Array]:
        """Returns a program of NumPy."""
        window = hann(self.n_fft).astype(np.float32)
        return lambda: self._overlap_add(x.swapaxes(1, 2) * window)


class StftNode(_Transform):
    """An STFT node."""

    group = "node STFT"
    allowed_error = _INEXACT

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (self.batch, self.length, 1)

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder = ModelBuilder()
        hop, window = builder.constant(np.int64(self.hop)), builder.constant(hann(self.n_fft))
        return builder.model(self.shape, builder.node("STFT", INPUT, hop, window, onesided=1))

    def scipy(self, x: Array, threads: int) -> Callable[[], Array]:
        """Returns a program of SciPy."""
        import scipy.fft

        window = hann(self.n_fft).astype(np.float32)

        def run() -> Array:
            spectrum = scipy.fft.rfft(self._frames(x[:, :, 0]) * window, axis=-1, workers=threads)
            return _pairs(spectrum)

        return run


@dataclasses.dataclass(frozen=True)
class DftNode:
    """A DFT node.

    Attributes:
        n_fft: Its length.
        rows: How many are transformed at once.
        inverse: Whether it is the inverse of whole spectra; otherwise it gives half spectra of real numbers.
    """

    group: ClassVar[str] = "node DFT"
    allowed_error: ClassVar[float] = _INEXACT

    n_fft: int
    rows: int
    inverse: bool = False

    @property
    def name(self) -> str:
        """What tables show."""
        return f"{self.group}, n_fft {self.n_fft}, {self.rows} rows, {'inverse, complex' if self.inverse else 'real'}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (self.rows, self.n_fft, 2 if self.inverse else 1)

    def data(self) -> Array:
        """Returns the input."""
        return np.random.default_rng(1).standard_normal(self.shape, np.float32)

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder = ModelBuilder()
        axis = builder.constant(np.int64(1))
        flags = {"inverse": int(self.inverse), "onesided": int(not self.inverse)}
        return builder.model(self.shape, builder.node("DFT", INPUT, "", axis, **flags))

    def scipy(self, x: Array, threads: int) -> Callable[[], Array]:
        """Returns a program of SciPy."""
        import scipy.fft

        def run() -> Array:
            if self.inverse:
                spectrum = scipy.fft.ifft(x.view(np.complex64)[..., 0], axis=-1, workers=threads)
            else:
                spectrum = scipy.fft.rfft(x[..., 0], axis=-1, workers=threads)
            return _pairs(spectrum)

        return run


def _pairs(numbers: Array) -> Array:
    """Returns complex64 numbers as float32 [..., 2], without a copy."""
    pairs: Array = numbers.view(np.float32)
    return pairs.reshape(*numbers.shape, 2)


def transforms(batch: int) -> list[Problem]:
    """Returns the transforms.

    Args:
        batch: Of those of HTDemucs.
    """
    found: list[Problem] = []
    for kind in (InverseLayer, ForwardLayer):
        for n_fft in (16, 400, 512, 1024, 2048, 4096):
            found.append(kind(n_fft, n_fft // 4, 4 * _SAMPLES // n_fft))
    found.append(SplitInverse(4096, 1024, 340, batch))  # HTDemucs: 7.8 s at 44.1 kHz
    found += [OverlapAddLayer(n_fft, n_fft // 4, 4 * _SAMPLES // n_fft) for n_fft in (400, 1024, 4096)]
    lengths = (400, 512, 1000, 1024)
    found += [StftNode(n_fft, n_fft // 4, 4 * _SAMPLES // n_fft) for n_fft in lengths]
    found += [DftNode(n_fft, 128, inverse) for inverse in (False, True) for n_fft in lengths]
    return found
