"""The NumPy references of the short-time Fourier transforms, of OverlapAdd and of FourierTransform.

They compute in float64 and round once. The notation: f bin, j position in a frame, t frame, K taps of the window.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortconv.opset.reference.operands import Array

__all__ = ["forward_stft", "fourier_transform", "inverse_stft", "overlap_add"]

_BOTH, _COSINES, _SINES = 0, 1, 2
_REAL, _COMPLEX = 1, 2


def forward_stft(
    signal: Array, window: Array, gains: Array, *, n_fft: int, hop: Sequence[int], pads: Sequence[int], parts: int
) -> Array:
    """y[n, c, t] = gains[c] * sum over j of window[j] * cs(f, j) * padded_signal[n, t * hop + j].

    Args:
        signal: [N, 1, L], of floats.
        window: [K].
        gains: [C]: those of the cosine channels, then those of the sine channels.
        n_fft: Length of the transform, >= K.
        hop: The distance of frames.
        pads: Zeros before and behind the signal.
        parts: 0 for cosines and sines, 1 for cosines, 2 for sines.

    Returns:
        [N, C, frames], in the type of `signal`.

    Raises:
        ValueError: A shape or attribute contradicts the above, or the window exceeds the padded signal.
    """
    step, (begin, end) = _grid(hop, pads)
    bins = _bins(window, gains, n_fft, parts)
    if signal.ndim != 3 or signal.shape[1] != 1:
        raise ValueError(f"signal has shape {list(signal.shape)}; allowed: [N, 1, L]")
    room = signal.shape[2] + begin + end - window.size
    if room < 0:
        raise ValueError(f"the window has {window.size} taps; allowed: up to the {room + window.size} of padded signal")
    padded = np.pad(signal[:, 0].astype(np.float64), ((0, 0), (begin, end)))
    at = np.arange(room // step + 1)[:, None] * step + np.arange(window.size)
    spectrum = np.fft.fft(padded[:, at] * window.astype(np.float64), n_fft)[..., :bins]
    channels = np.concatenate(_wanted(parts, spectrum.real, -spectrum.imag), axis=2)
    return _rounded(np.swapaxes(channels * gains.astype(np.float64), 1, 2), signal)


def inverse_stft(
    spectrum: Array,
    window: Array,
    gains: Array,
    sines: Array | None = None,
    *,
    n_fft: int,
    hop: Sequence[int],
    pads: Sequence[int],
    output_padding: Sequence[int],
    parts: int,
) -> Array:
    """y[n, 0, t * hop + j - begin] += window[j] * sum over c of gains[c] * spectrum[n, c, t] * cs(f, j).

    Args:
        spectrum: [N, C, frames], of floats; with `sines` [N, C / 2, frames], the cosine channels.
        window: [K].
        gains: [C]: those of the cosine channels, then those of the sine channels.
        sines: None, or the sine channels [N, C / 2, frames].
        n_fft: Length of the transform, >= K.
        hop: The distance of frames.
        pads: Positions removed at the begin and at the end.
        output_padding: Positions added at the end.
        parts: 0 for cosines and sines, 1 for cosines, 2 for sines.

    Returns:
        [N, 1, L], in the type of `spectrum`.

    Raises:
        ValueError: A shape or attribute contradicts the above, or L would be negative.
    """
    bins = _bins(window, gains, n_fft, parts)
    if sines is not None:
        if parts != _BOTH or sines.shape != spectrum.shape:
            raise ValueError(f"sines has shape {list(sines.shape)}; allowed: {list(spectrum.shape)}, beside parts = 0")
        spectrum = np.concatenate([spectrum, sines], axis=1)
    if spectrum.ndim != 3 or spectrum.shape[1] != gains.size:
        raise ValueError(
            f"spectrum has shape {list(spectrum.shape)}; allowed: [N, {gains.size}, frames], as gains says"
        )
    wide = np.swapaxes(spectrum.astype(np.float64), 1, 2) * gains.astype(np.float64)
    weighted = np.zeros((*wide.shape[:2], n_fft), np.complex128)
    if parts != _SINES:
        weighted.real[..., :bins] = wide[..., :bins]
    if parts != _COSINES:
        weighted.imag[..., :bins] = -wide[..., -bins:]
    frames = (np.fft.ifft(weighted, norm="forward").real)[..., : window.size] * window.astype(np.float64)
    return _rounded(_added_up(frames, hop, pads, output_padding), spectrum)


def overlap_add(
    frames: Array, window: Array, *, hop: Sequence[int], pads: Sequence[int], output_padding: Sequence[int]
) -> Array:
    """y[n, 0, t * hop + j - begin] += window[j] * frames[n, j, t].

    Args:
        frames: [N, K, T], of floats.
        window: [K].
        hop: The distance of frames.
        pads: Positions removed at the begin and at the end.
        output_padding: Positions added at the end.

    Returns:
        [N, 1, L], in the type of `frames`.

    Raises:
        ValueError: A shape or attribute contradicts the above, or L would be negative.
    """
    _check_window(window)
    if frames.ndim != 3 or frames.shape[1] != window.size:
        raise ValueError(f"frames has shape {list(frames.shape)}; allowed: [N, {window.size}, T], as window says")
    wide = np.swapaxes(frames.astype(np.float64), 1, 2) * window.astype(np.float64)
    return _rounded(_added_up(wide, hop, pads, output_padding), frames)


def fourier_transform(x: Array, length: Array | None = None, *, axis: int, inverse: int, onesided: int) -> Array:
    """The discrete Fourier transform of an axis, as DFT of ai.onnx defines it, and of Hermitian spectra.

    Args:
        x: [..., size, ..., 1 or 2]: the last axis holds real parts, or real and imaginary parts.
        length: The length of the transform, a scalar; None or 0 for the size of the axis, or 2 * (size - 1) of a
            Hermitian spectrum.
        axis: Not the last one.
        inverse: 1 for the inverse transform, scaled by 1 / length.
        onesided: 1 to return the first length // 2 + 1 bins of real data or, if `inverse`, to take those of a Hermitian
            spectrum and to return real data.

    Returns:
        The transform, in the type of `x`.

    Raises:
        ValueError: A shape or attribute contradicts the above.
    """
    if x.ndim < 2 or x.shape[-1] not in (_REAL, _COMPLEX):
        raise ValueError(f"X has shape {list(x.shape)}; allowed: two axes or more, the last one 1 or 2")
    if not -x.ndim <= axis < x.ndim or axis in (-1, x.ndim - 1):
        raise ValueError(f"axis = {axis}; allowed: those of X but the last one")
    if inverse not in (0, 1) or onesided not in (0, 1):
        raise ValueError(f"inverse = {inverse}, onesided = {onesided}; allowed: 0 and 1")
    if onesided and x.shape[-1] != (_COMPLEX if inverse else _REAL):
        raise ValueError(f"the last axis of X has size {x.shape[-1]}; allowed: {2 if inverse else 1}")
    if length is not None and (length.size != 1 or length < 0):
        raise ValueError(f"length = {length.tolist()}; allowed: one integer >= 0")
    axis %= x.ndim
    size = x.shape[axis]
    count = int(length.reshape(())) if length is not None else 0
    count = count or (2 * (size - 1) if inverse and onesided else size)
    if count < 1:
        raise ValueError(f"the length of the transform is {count}; allowed: at least 1")
    wide = np.ascontiguousarray(x, np.float64)
    data = wide[..., 0] if x.shape[-1] == _REAL else wide.view(np.complex128)[..., 0]
    found: Array
    if not onesided:
        found = np.fft.ifft(data, count, axis) if inverse else np.fft.fft(data, count, axis)
    else:
        found = np.fft.irfft(data, count, axis) if inverse else np.fft.rfft(data, count, axis)
    results = [found] if found.dtype.kind == "f" else [found.real, found.imag]
    return _rounded(np.stack(results, -1), x)


def _rounded(result: Array, data: Array) -> Array:
    with np.errstate(over="ignore"):
        rounded: Array = np.ascontiguousarray(result).astype(data.dtype)
    return rounded


def _wanted(parts: int, cosines: Array, sines: Array) -> list[Array]:
    return [cosines] * (parts != _SINES) + [sines] * (parts != _COSINES)


def _check_window(window: Array) -> None:
    if window.ndim != 1 or window.size < 1:
        raise ValueError(f"window has shape {list(window.shape)}; allowed: [K], at least one tap")


def _bins(window: Array, gains: Array, n_fft: int, parts: int) -> int:
    """Returns how many bins there are."""
    _check_window(window)
    if n_fft < window.size:
        raise ValueError(f"n_fft = {n_fft}; allowed: at least {window.size}, the taps of the window")
    if parts not in (_BOTH, _COSINES, _SINES):
        raise ValueError(f"parts = {parts}; allowed: 0 to 2")
    each = 2 if parts == _BOTH else 1
    bins = gains.size // each
    if gains.ndim != 1 or gains.size % each or not 1 <= bins <= n_fft:
        raise ValueError(f"gains has shape {list(gains.shape)}; allowed: {each} for each of 1 to {n_fft} bins")
    return bins


def _grid(hop: Sequence[int], pads: Sequence[int]) -> tuple[int, tuple[int, int]]:
    if len(hop) != 1 or hop[0] < 1:
        raise ValueError(f"hop = {list(hop)}; allowed: one integer >= 1")
    if len(pads) != 2 or min(pads) < 0:
        raise ValueError(f"pads = {list(pads)}; allowed: 2 integers >= 0")
    return hop[0], (pads[0], pads[1])


def _added_up(frames: Array, hop: Sequence[int], pads: Sequence[int], output_padding: Sequence[int]) -> Array:
    """Adds up frames [N, T, K] where they lie; returns [N, 1, L]."""
    step, (begin, end) = _grid(hop, pads)
    if len(output_padding) != 1 or output_padding[0] < 0:
        raise ValueError(f"output_padding = {list(output_padding)}; allowed: one integer >= 0")
    batch, count, taps = frames.shape
    size = max((count - 1) * step + taps, 0) + output_padding[0]
    if size - begin - end < 0:
        raise ValueError(f"the result would have {size - begin - end} positions; allowed: at least 0")
    full = np.zeros((batch, size))
    for t in range(count):
        full[:, t * step : t * step + taps] += frames[:, t]
    return full[:, None, begin : size - end]
