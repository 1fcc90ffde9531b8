"""Windows and filters with which networks compute Fourier transforms as convolutions, in float64."""

from __future__ import annotations

import numpy as np

from benchmarks.audio.problems import Array

__all__ = ["forward_filters", "hann", "inverse_filters", "window_sum"]


def hann(size: int) -> Array:
    """Returns the periodic Hann window."""
    window: Array = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    return window


def forward_filters(n_fft: int) -> Array:
    """Returns windowed cosines and then negative sines, [2 * bins, n_fft]: what a real FFT of a frame gives."""
    waves = _waves(n_fft)
    filters: Array = np.concatenate([waves.real, -waves.imag]) * hann(n_fft)
    return filters


def inverse_filters(n_fft: int) -> Array:
    """Returns the filters [2 * bins, n_fft] of the inverse transform, windowed."""
    waves, gains = _waves(n_fft), np.full((n_fft // 2 + 1, 1), 2 / n_fft)
    gains[0] = gains[-1] = 1 / n_fft
    filters: Array = np.concatenate([waves.real * gains, -waves.imag * gains]) * hann(n_fft)
    return filters


def window_sum(n_fft: int, hop: int, frames: int) -> Array:
    """Returns the sum of squared windows at each sample, 1 where it vanishes."""
    total = np.zeros((frames - 1) * hop + n_fft)
    for frame in range(frames):
        total[frame * hop : frame * hop + n_fft] += hann(n_fft) ** 2
    return np.where(total > np.finfo(np.float32).tiny, total, 1)


def _waves(n_fft: int) -> Array:
    turns = np.outer(np.arange(n_fft // 2 + 1), np.arange(n_fft)) % n_fft
    waves: Array = np.exp(2j * np.pi / n_fft * turns)
    # Exactly zero, as SciPy does not look at these either.
    waves.imag[[0, -1]] = 0
    return waves
