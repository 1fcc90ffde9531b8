"""A short sound, made from two tones and clicks; writing sounds to files, and drawing their spectrograms."""

from __future__ import annotations

import pathlib
import wave

import numpy as np

RATE = 16000
"""Samples per second."""

LENGTH = 188 * 256
"""Samples: three seconds, and a whole number of hops of 256."""

SEED = 7
_LEVELS = (-100, 0)
"""The range of the colours in dB, where 0 is the loudest point of all spectrograms."""


def tones() -> np.ndarray:
    """Returns two steady tones, [LENGTH] float64, that fade in and out."""
    seconds = np.arange(LENGTH) / RATE
    fade = np.clip(np.minimum(seconds, seconds[::-1]) / 0.1, 0, 1)
    return fade * (0.25 * np.sin(2 * np.pi * 523.25 * seconds) + 0.1 * np.sin(2 * np.pi * 1567.98 * seconds))


def clicks() -> np.ndarray:
    """Returns bursts of noise of a few milliseconds, three a second, and faint noise all the time."""
    rng = np.random.default_rng(SEED)
    noise = 5e-4 * rng.standard_normal(LENGTH)
    burst = np.exp(-np.arange(96) / 24)
    for begin in range(RATE // 6, LENGTH - len(burst), RATE // 3):
        noise[begin : begin + len(burst)] += 0.5 * burst * rng.standard_normal(len(burst))
    return noise


def write(path: pathlib.Path, samples: np.ndarray) -> None:
    """Writes samples in -1..1 as a WAV file of 16 bits, one channel."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def draw(path: pathlib.Path, sounds: dict[str, np.ndarray]) -> None:
    """Draws the spectrograms of sounds, which are given by title, side by side in one scale of colours."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(sounds), figsize=(11, 4.2), sharey=True, layout="constrained")
    spectra = {title: _power(samples) for title, samples in sounds.items()}
    loudest = max(power.max() for power in spectra.values())
    for each, (title, power) in zip(axes, spectra.items(), strict=True):
        image = each.imshow(
            10 * np.log10(np.maximum(power / loudest, 1e-12)),
            origin="lower",
            aspect="auto",
            extent=(0, LENGTH / RATE, 0, RATE / 2000),
            vmin=_LEVELS[0],
            vmax=_LEVELS[1],
            cmap="magma",
            interpolation="nearest",
        )
        each.set_title(title)
        each.set_xlabel("time (s)")
    axes[0].set_ylabel("frequency (kHz)")
    figure.colorbar(image, ax=axes, label="power (dB, 0 is the loudest)", pad=0.02)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def _power(samples: np.ndarray) -> np.ndarray:
    """Returns the power of each frequency and time, [257, frames]."""
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(samples, 256, mode="reflect"), 512)[::128]
    return np.abs(np.fft.rfft(frames * np.hanning(512), axis=1).T) ** 2
