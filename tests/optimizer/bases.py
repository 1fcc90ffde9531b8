"""Filters of short-time Fourier transforms, from their definition and as known programs compute them."""

from __future__ import annotations

import numpy as np
import scipy.signal

RNG = np.random.default_rng(5)


def hann(size: int) -> np.ndarray:
    return scipy.signal.get_window("hann", size)


def padded(window: np.ndarray, size: int) -> np.ndarray:
    """Returns a window in the middle of zeros, as librosa's pad_center does."""
    begin = (size - len(window)) // 2
    return np.pad(window, (begin, size - len(window) - begin))


def filters(
    n_fft: int,
    bins: int | None = None,
    taps: int | None = None,
    parts: int = 0,
    window: np.ndarray | None = None,
    gains: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Returns gains * window * cosines, then sines, in float64."""
    bins, taps = bins or n_fft // 2 + 1, taps or n_fft
    turns = np.outer(np.arange(bins), np.arange(taps)) % n_fft / n_fft
    wave = np.exp(2j * np.pi * turns)
    rows = np.concatenate([wave.real, wave.imag]) if parts == 0 else wave.real if parts == 1 else wave.imag
    return rows * (np.ones(taps) if window is None else window) * np.broadcast_to(gains, len(rows))[:, np.newaxis]


def inverse_gains(n_fft: int) -> np.ndarray:
    """Returns the gains of a one-sided inverse transform: the sines of the first and the last bin do not matter."""
    gains = np.full(n_fft // 2 + 1, 2.0 / n_fft)
    gains[[0, -1]] /= 2
    return np.concatenate([gains, -gains])


def tacotron(n_fft: int, hop: int, window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the forward and inverse filters that the class STFT of Tacotron 2 and torch-stft computes."""
    fourier = np.fft.fft(np.eye(n_fft))
    cut = n_fft // 2 + 1
    fourier = np.vstack([np.real(fourier[:cut]), np.imag(fourier[:cut])])
    inverse = np.linalg.pinv(n_fft / hop * fourier).T.astype(np.float32)
    rounded = window.astype(np.float32)
    return fourier.astype(np.float32) * rounded, inverse * rounded


def of_float32(n_fft: int, *, window: np.ndarray, gains: np.ndarray, reduced: bool = True) -> np.ndarray:
    """Returns filters all of whose steps are computed in float32."""
    product = np.outer(np.arange(n_fft // 2 + 1), np.arange(n_fft))
    places = (product % n_fft if reduced else product).astype(np.float32)
    phases = np.float32(2 * np.pi) * places / np.float32(n_fft)
    assert phases.dtype == np.float32
    rows = np.concatenate([np.cos(phases), np.sin(phases)])
    return rows * window.astype(np.float32) * gains.astype(np.float32)[:, np.newaxis]


def pinv_of_float32(n_fft: int, window: np.ndarray) -> np.ndarray:
    """Returns inverse filters whose pseudo-inverse is computed in float32, as torch.linalg.pinv does by default."""
    rows = filters(n_fft).astype(np.float32) * np.float32(4)
    found = np.linalg.pinv(rows, rcond=float(max(rows.shape) * np.finfo(np.float32).eps)).T
    assert found.dtype == np.float32
    return found * window.astype(np.float32)
