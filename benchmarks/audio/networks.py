"""Small networks of known architectures around Fourier transforms, with random weights."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from benchmarks.audio.bases import forward_filters, inverse_filters, window_sum
from benchmarks.audio.problems import INPUT, Array, ModelBuilder, Problem

if TYPE_CHECKING:
    import onnx

__all__ = ["ISTFTNetHead", "Separator", "Vocoder", "WhisperFrontEnd", "networks"]


@dataclasses.dataclass(frozen=True)
class _Network(abc.ABC):
    """What the networks have in common."""

    group: ClassVar[str] = "networks"
    allowed_error: ClassVar[float] = 1e-5

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the input."""

    def data(self) -> Array:
        """Returns the input."""
        return np.random.default_rng(1).standard_normal(self.shape, np.float32)

    def scipy(self, x: Array, threads: int) -> None:  # noqa: B027 - what it returns of every network
        """Returns None: SciPy has no networks."""


@dataclasses.dataclass(frozen=True)
class Vocoder(_Network):
    """Vocos: ConvNeXt blocks over mel frames, whose last layer gives log-magnitude and phase of each bin.

    Attributes:
        frames: Number of frames.
        mels: Bands of a frame.
        size: Channels of the blocks.
        blocks: How many blocks there are.
        n_fft: Length of the transform; the hop is a quarter of it.
    """

    frames: int = 188
    mels: int = 100
    size: int = 512
    blocks: int = 8
    n_fft: int = 1024

    @property
    def name(self) -> str:
        """What tables show."""
        return f"Vocos, {self.blocks} blocks of {self.size}, n_fft {self.n_fft}, {self.frames} frames"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (1, self.mels, self.frames)

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder, size = ModelBuilder(), self.size
        x = _convolution(builder, INPUT, self.mels, size, 7)
        x = _turned(builder, _normalised(builder, _turned(builder, x), size))
        for _ in range(self.blocks):
            y = _convolution(builder, x, size, size, 7, group=size)
            y = _normalised(builder, _turned(builder, y), size)
            y = builder.node("Gelu", _linear(builder, y, size, 3 * size))
            y = builder.node("Mul", _linear(builder, y, 3 * size, size), builder.constant(np.full(size, 0.125)))
            x = builder.node("Add", x, _turned(builder, y))
        x = _linear(builder, _normalised(builder, _turned(builder, x), size), size, self.n_fft + 2)
        logarithm, phase = builder.nodes("Split", 2, _turned(builder, x), axis=1, num_outputs=2)
        magnitude = builder.node("Clip", builder.node("Exp", logarithm), "", builder.constant(100.0))
        spectrum = _polar(builder, magnitude, phase)
        return builder.model(self.shape, _inverse(builder, spectrum, self.n_fft, self.n_fft // 4, self.frames))


@dataclasses.dataclass(frozen=True)
class ISTFTNetHead(_Network):
    """iSTFTNet: transposed convolutions from mel frames up to frames of 4 samples, then the inverse STFT of 16.

    Attributes:
        frames: Number of mel frames.
        mels: Bands of a frame.
        size: Channels before the first transposed convolution; each halves them.
    """

    frames: int = 100
    mels: int = 80
    size: int = 256

    @property
    def name(self) -> str:
        """What tables show."""
        return f"iSTFTNet, {self.size} channels, n_fft 16, {64 * self.frames} frames"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (1, self.mels, self.frames)

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder, size = ModelBuilder(), self.size
        x = _convolution(builder, INPUT, self.mels, size, 7)
        for _ in range(2):
            x = builder.node("LeakyRelu", x, alpha=0.1)
            weights = builder.weights(size, size // 2, 16, terms=2 * size)
            x = builder.node("ConvTranspose", x, weights, builder.weights(size // 2, terms=1), strides=[8], pads=[4, 4])
            size //= 2
            for dilation in (1, 3):
                y = builder.node("LeakyRelu", x, alpha=0.1)
                x = builder.node("Add", x, _convolution(builder, y, size, size, 3, dilation=dilation))
        x = builder.node("LeakyRelu", x, alpha=0.01)
        parts = builder.nodes("Split", 2, _convolution(builder, x, size, 18, 7), axis=1, num_outputs=2)
        spectrum = _polar(builder, builder.node("Exp", parts[0]), builder.node("Sin", parts[1]))
        return builder.model(self.shape, _inverse(builder, spectrum, 16, 4, 64 * self.frames))


@dataclasses.dataclass(frozen=True)
class WhisperFrontEnd(_Network):
    """Whisper's log-mel spectrogram, n_fft 400 and hop 160, with the STFT as a Conv.

    Attributes:
        seconds: Length of the sound at 16 kHz.
        mels: Bands of a frame.
    """

    seconds: int = 30
    mels: int = 80

    @property
    def name(self) -> str:
        """What tables show."""
        return f"Whisper's front end, {self.seconds} s, {self.mels} bands"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (1, 1, 16000 * self.seconds)

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder = ModelBuilder()
        padded = builder.node("Pad", INPUT, builder.integers(0, 0, 200, 0, 0, 200), mode="reflect")
        spectrum = builder.node("Conv", padded, builder.constant(forward_filters(400)[:, np.newaxis]), strides=[160])
        ends = [builder.integers(each) for each in (0, -1, 2)]
        power = _power(builder, builder.node("Slice", spectrum, *ends))
        bands = builder.node("MatMul", builder.constant(_mel_filters(self.mels)), power)
        level = builder.node("Log", builder.node("Clip", bands, builder.constant(1e-10)))
        level = builder.node("Mul", level, builder.constant(1 / np.log(10)))
        loudest = builder.node("ReduceMax", level, keepdims=1)
        level = builder.node("Max", level, builder.node("Sub", loudest, builder.constant(8.0)))
        level = builder.node("Add", level, builder.constant(4.0))
        return builder.model(self.shape, builder.node("Mul", level, builder.constant(0.25)))


@dataclasses.dataclass(frozen=True)
class Separator(_Network):
    """The outer layers of HTDemucs's branch of spectra: STFT, a mask from convolutions along frequency, inverse STFT.

    Attributes:
        frames: Number of frames.
        size: Channels of the convolutions.
        n_fft: Length of the transform; the hop is a quarter of it.
    """

    frames: int = 172
    size: int = 48
    n_fft: int = 4096

    @property
    def name(self) -> str:
        """What tables show."""
        return f"HTDemucs-like, {self.size} channels, n_fft {self.n_fft}, stereo, {self.frames} frames"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input."""
        return (1, 2, (self.frames - 1) * self.n_fft // 4)

    def model(self) -> onnx.ModelProto:
        """Returns the model."""
        builder, half, bins = ModelBuilder(), self.n_fft // 2, self.n_fft // 2 + 1
        sides = builder.node("Reshape", INPUT, builder.integers(2, 1, self.shape[2]))
        padded = builder.node("Pad", sides, builder.integers(0, 0, half, 0, 0, half), mode="reflect")
        filters = builder.constant(forward_filters(self.n_fft)[:, np.newaxis])
        spectrum = builder.node("Conv", padded, filters, strides=[self.n_fft // 4])
        image = builder.node("Reshape", spectrum, builder.integers(1, 4, bins, self.frames))
        x = builder.node("Mul", image, builder.constant(1 / np.sqrt(self.n_fft)))
        down = {"strides": [4, 1], "pads": [2, 0, 2, 0]}
        x = builder.node("Conv", x, builder.weights(self.size, 4, 8, 1, terms=32), **down)
        x = builder.node("Gelu", x)
        x = builder.node("Conv", x, builder.weights(self.size, self.size, 3, 3, terms=9 * self.size), pads=[1] * 4)
        x = builder.node("Gelu", x)
        up = builder.weights(self.size, 4, 8, 1, terms=2 * self.size)
        x = builder.node("ConvTranspose", x, up, output_padding=[(bins - 4) % 4, 0], **down)
        masked = builder.node("Mul", image, builder.node("Sigmoid", x))
        spectrum = builder.node("Reshape", masked, builder.integers(2, 2 * bins, self.frames))
        sides = _inverse(builder, spectrum, self.n_fft, self.n_fft // 4, self.frames)
        return builder.model(self.shape, builder.node("Reshape", sides, builder.integers(*self.shape)))


def networks() -> list[Problem]:
    """Returns the networks."""
    return [Vocoder(), ISTFTNetHead(), WhisperFrontEnd(), Separator()]


def _convolution(
    builder: ModelBuilder, x: str, inputs: int, outputs: int, kernel: int, dilation: int = 1, group: int = 1
) -> str:
    """Adds a Conv that keeps the length, with a bias."""
    weights = builder.weights(outputs, inputs // group, kernel, terms=inputs // group * kernel)
    pad = kernel // 2 * dilation
    bias = builder.weights(outputs, terms=10)
    return builder.node("Conv", x, weights, bias, pads=[pad, pad], dilations=[dilation], group=group)


def _linear(builder: ModelBuilder, x: str, inputs: int, outputs: int) -> str:
    product = builder.node("MatMul", x, builder.weights(inputs, outputs, terms=inputs))
    return builder.node("Add", product, builder.weights(outputs, terms=10))


def _normalised(builder: ModelBuilder, x: str, size: int) -> str:
    scale, bias = builder.constant(np.ones(size)), builder.constant(np.zeros(size))
    return builder.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-6)


def _turned(builder: ModelBuilder, x: str) -> str:
    return builder.node("Transpose", x, perm=[0, 2, 1])


def _polar(builder: ModelBuilder, magnitude: str, phase: str) -> str:
    """Adds what makes real and then imaginary parts of magnitudes and phases."""
    parts = [builder.node("Mul", magnitude, builder.node(each, phase)) for each in ("Cos", "Sin")]
    return builder.node("Concat", *parts, axis=1)


def _power(builder: ModelBuilder, spectrum: str) -> str:
    parts = builder.nodes("Split", 2, spectrum, axis=1, num_outputs=2)
    return builder.node("Add", *(builder.node("Mul", part, part) for part in parts))


def _inverse(builder: ModelBuilder, spectrum: str, n_fft: int, hop: int, frames: int) -> str:
    """Adds the inverse STFT of a centred one: a ConvTranspose, the division by the sum of windows, and a cut."""
    filters = builder.constant(inverse_filters(n_fft)[:, np.newaxis])
    added = builder.node("ConvTranspose", spectrum, filters, strides=[hop])
    even = builder.node("Div", added, builder.constant(window_sum(n_fft, hop, frames).reshape(1, 1, -1)))
    ends = [builder.integers(each) for each in (n_fft // 2, n_fft // 2 + (frames - 1) * hop, 2)]
    return builder.node("Slice", even, *ends)


def _mel_filters(bands: int) -> Array:
    """Returns triangles [bands, 201] that are evenly spaced on the mel scale from 0 to 8 kHz."""
    top = 2595 * np.log10(1 + 8000 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    frequencies = np.arange(201) * 40.0
    rising = (frequencies - edges[:-2, np.newaxis]) / (edges[1:-1] - edges[:-2])[:, np.newaxis]
    falling = (edges[2:, np.newaxis] - frequencies) / (edges[2:] - edges[1:-1])[:, np.newaxis]
    triangles: Array = np.maximum(0, np.minimum(rising, falling))
    return triangles * (2 / (edges[2:] - edges[:-2]))[:, np.newaxis]
