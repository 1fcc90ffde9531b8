"""Fitting bases of Fourier transforms: every form that models have is found, and nothing that is near one."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from ortconv.optimizer.spectral_basis import BOTH, COSINES, SINES, Basis, diagonal, fit
from tests.optimizer.bases import filters, hann, inverse_gains, of_float32, padded, pinv_of_float32, tacotron

N = 64
ALL_BINS = 1.0 + np.arange(2 * (N // 2 + 1)) % 7
KAISER = scipy.signal.get_window(("kaiser", 6.0), N)

FORMS = {
    "plain": ({"n_fft": N}, BOTH),
    "Hann": ({"n_fft": N, "window": hann(N)}, BOTH),
    "inverse": ({"n_fft": N, "window": hann(N), "gains": inverse_gains(N)}, BOTH),
    "gains of each filter": ({"n_fft": N, "window": KAISER, "gains": ALL_BINS}, BOTH),
    "negative sines": ({"n_fft": N, "gains": np.repeat([1.0, -1.0], 33)}, BOTH),
    "cosines": ({"n_fft": N, "window": KAISER, "parts": 1}, COSINES),
    "sines": ({"n_fft": N, "window": KAISER, "parts": 2}, SINES),
    "sines with Hann": ({"n_fft": N, "window": hann(N), "parts": 2, "gains": -0.5}, SINES),
    "cosines, gains": ({"n_fft": N, "window": hann(N), "parts": 1, "gains": ALL_BINS[:33]}, COSINES),
    "cosines without a mean": ({"n_fft": N, "window": hann(N), "parts": 1, "gains": np.r_[0, ALL_BINS[1:33]]}, COSINES),
    "no mean": ({"n_fft": N, "window": hann(N), "gains": np.r_[0, ALL_BINS[1:]]}, BOTH),
    "padded window": ({"n_fft": N, "window": padded(hann(40), N)}, BOTH),
    "padded window, sines": ({"n_fft": N, "window": padded(hann(40), N), "parts": 2}, SINES),
    "window with both signs": ({"n_fft": N, "window": np.hanning(N) - 0.2}, BOTH),
    "short kernel": ({"n_fft": N, "taps": 48, "window": hann(48)}, BOTH),
    "short kernel, few": ({"n_fft": N, "taps": 50, "bins": 20, "window": hann(50)}, BOTH),
    "few": ({"n_fft": N, "bins": 10, "window": hann(N)}, BOTH),
    "few cosines": ({"n_fft": 512, "taps": 400, "bins": 80, "window": hann(400), "parts": 1}, COSINES),
    "few sines": ({"n_fft": 512, "taps": 400, "bins": 80, "window": hann(400), "parts": 2}, SINES),
    "few, odd length": ({"n_fft": 441, "taps": 300, "bins": 61, "window": hann(300)}, BOTH),
    "no last bin": ({"n_fft": N, "bins": N // 2, "window": hann(N)}, BOTH),
    "whole": ({"n_fft": N, "bins": N, "window": hann(N)}, BOTH),
    "whole cosines": ({"n_fft": N, "bins": N, "window": hann(N), "parts": 1}, COSINES),
    "whole sines": ({"n_fft": N, "bins": N, "window": hann(N), "parts": 2}, SINES),
    "odd length": ({"n_fft": 45, "bins": 23, "window": hann(45)}, BOTH),
    "prime length, whole": ({"n_fft": 61, "bins": 61}, BOTH),
    "smallest": ({"n_fft": 16, "window": hann(16)}, BOTH),
    "twenty": ({"n_fft": 20, "window": hann(20), "gains": 1 / 20}, BOTH),
    "thousand": ({"n_fft": 1000, "window": hann(1000)}, BOTH),
}  # fmt: skip


def fitted(basis: Basis) -> np.ndarray:
    """Returns the filters that a basis stands for."""
    return filters(
        basis.n_fft,
        basis.bins,
        len(basis.window),
        basis.parts,
        basis.window.astype(np.float64),
        basis.gains.astype(np.float64),
    )


def assert_found(data: np.ndarray, n_fft: int, parts: int, units: float = 64) -> Basis:
    basis = fit(data)
    assert basis is not None
    assert (basis.n_fft, basis.parts, basis.fits) == (n_fft, parts, True), basis.distance
    assert basis.window.dtype == basis.gains.dtype == data.dtype
    apart = np.abs(fitted(basis) - data).max(1)
    noise = 2.0**-24 * np.abs(data).max()
    limit = units * np.finfo(data.dtype).eps / 2 * np.maximum(np.abs(data).max(1), noise)
    null = np.abs(data).max(1) < noise
    assert np.all(apart[~null] <= limit[~null])
    assert np.all(apart[null] <= noise)
    return basis


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    arguments, parts = FORMS[form]
    data = filters(**arguments)
    assert_found(data.astype(np.float32), arguments["n_fft"], parts, units=2)
    assert_found(data.astype(np.float16), arguments["n_fft"], parts, units=4)


@pytest.mark.parametrize("n_fft", [20, 256, 400, 1024])
@pytest.mark.parametrize("length", [1, 0.75])
def test_tacotron(n_fft: int, length: float) -> None:
    for data in tacotron(n_fft, n_fft // 4, padded(hann(int(length * n_fft)), n_fft)):
        basis = assert_found(data, n_fft, BOTH, units=3)
        assert not basis.gains[[n_fft // 2 + 1, -1]].any()  # sines of the first and the last bin


@pytest.mark.parametrize("n_fft", [16, 20, 100, 400, 512, 1024])
def test_filters_that_were_computed_in_float32(n_fft: int) -> None:
    assert_found(of_float32(n_fft, window=hann(n_fft), gains=inverse_gains(n_fft)), n_fft, BOTH, units=24)
    assert_found(pinv_of_float32(n_fft, hann(n_fft)), n_fft, BOTH, units=40)


@pytest.mark.parametrize("n_fft", [100, 400, 1024])
def test_phases_that_grow_in_float32_are_another_transform(n_fft: int) -> None:
    basis = fit(of_float32(n_fft, window=hann(n_fft), gains=inverse_gains(n_fft), reduced=False))
    assert basis is not None
    assert not basis.fits
    assert basis.n_fft == n_fft
    assert 2e-5 < basis.distance < 1e-3


def test_noise_in_filters_that_are_zero_in_theory() -> None:
    data = filters(N, window=hann(N))
    data[[33, 65]] = 1e-9 * np.random.default_rng(0).standard_normal((2, N))
    assert_found(data.astype(np.float32), N, BOTH, units=2)
    data[33] = 1e-3
    basis = fit(data.astype(np.float32))
    assert basis is not None
    assert not basis.fits


def test_a_bin_that_is_left_out() -> None:
    data = filters(N, window=hann(N))
    data[[5, 40]] = 0
    data[7] = 1e-12 * np.random.default_rng(0).standard_normal(N)
    basis = assert_found(data.astype(np.float32), N, BOTH, units=2)
    assert basis.gains[5] == basis.gains[40] == 0


Change = Callable[[np.ndarray, np.random.Generator], None]


def one_element(data: np.ndarray, rng: np.random.Generator) -> None:
    row = _row(data, rng)
    data[row, rng.integers(N)] += 1e-3 * np.abs(data[row]).max()


def gain_that_varies(data: np.ndarray, rng: np.random.Generator) -> None:
    row = _row(data, rng)
    data[row] *= 1 + 1e-3 * rng.choice([-1.0, 1.0], N)


def gain_that_drifts(data: np.ndarray, rng: np.random.Generator) -> None:
    data[_row(data, rng)] *= np.linspace(1, 1.001, N)


def noise(data: np.ndarray, rng: np.random.Generator) -> None:
    data *= 1 + 1e-3 * rng.standard_normal(data.shape)


def another_window(data: np.ndarray, rng: np.random.Generator) -> None:
    half = len(data) // 2
    data[:half] *= 1 + 1e-3 * np.sin(np.arange(N) * rng.uniform(0.1, 1))


def swapped(data: np.ndarray, rng: np.random.Generator) -> None:
    rows = rng.choice(np.arange(1, 32), 2, replace=False)
    data[rows] = data[rows[::-1]]


def all_shuffled(data: np.ndarray, rng: np.random.Generator) -> None:
    data[:] = data[rng.permutation(len(data))]


def shifted_taps(data: np.ndarray, rng: np.random.Generator) -> None:
    data[_row(data, rng)] = np.roll(data[_row(data, rng)], 1)


CHANGES: list[Change] = [
    one_element, gain_that_varies, gain_that_drifts, noise, another_window, swapped, all_shuffled, shifted_taps,
]  # fmt: skip


def _row(data: np.ndarray, rng: np.random.Generator) -> int:
    """Returns a filter, none that is zero."""
    while not np.abs(data[row := int(rng.integers(len(data)))]).max():
        pass
    return row


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("parts", [BOTH, COSINES, SINES])
def test_near_misses(change: Change, parts: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        window = hann(N) + rng.uniform(0.01, 0.2)
        data = filters(N, window=window, parts=parts, gains=rng.uniform(0.5, 2, 66 if parts == BOTH else 33))
        if parts != BOTH and change is another_window:
            continue  # A window that all filters share is a window.
        before = data.copy()
        change(data, rng)
        assert np.any(before != data)
        basis = fit(data.astype(np.float32))
        assert basis is None or basis.distance > 1.5 * basis.limit


@pytest.mark.parametrize("parts", [BOTH, COSINES, SINES])
def test_other_frequencies_and_phases(parts: int) -> None:
    rng = np.random.default_rng(parts)
    for _ in range(100):
        bins, window = 33, hann(N) + rng.uniform(0.01, 0.2)
        frequencies = np.arange(bins, dtype=np.float64)
        phases = np.zeros(bins)
        match rng.integers(4):
            case 0:
                frequencies *= 1 + rng.choice([-1, 1]) * 1e-3
            case 1:
                phases[1 + rng.integers(bins - 2)] = 1e-3
            case 2:
                phases += rng.choice([-1, 1]) * 1e-3
            case _:
                frequencies[1 + rng.integers(bins - 2)] += 1e-3  # that of the last cosine hardly changes it
        wave = window * np.exp(1j * (2 * np.pi / N * np.outer(frequencies, np.arange(N)) + phases[:, np.newaxis]))
        rows = np.concatenate([wave.real, wave.imag]) if parts == BOTH else wave.real if parts == COSINES else wave.imag
        basis = fit(rows.astype(np.float32))
        assert basis is None or basis.distance > 1.5 * basis.limit


def test_random_filters() -> None:
    rng = np.random.default_rng(11)
    for _ in range(300):
        shape = tuple(rng.integers([4, 16], [70, 70]))
        kind = rng.integers(4)
        data = rng.standard_normal(shape) if kind else rng.uniform(0, 1, shape)
        if kind == 1:  # smooth: what a network may have learned
            data = np.cumsum(np.cumsum(data, 1), 1)
        elif kind == 2:  # a filter bank of bands, as SincNet has
            low = np.sort(rng.uniform(0.01, 0.3, shape[0]))[:, np.newaxis]
            at = np.arange(shape[1]) - shape[1] / 2 + 0.1
            data = (np.sin(2 * np.pi * (low + 0.1) * at) - np.sin(2 * np.pi * low * at)) / at
        basis = fit(data.astype(np.float32))
        assert basis is None or not basis.fits


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_basis_is_found(data: st.DataObject) -> None:
    n_fft = data.draw(st.integers(16, 200))
    taps = data.draw(st.integers(max(16, n_fft // 2), n_fft))
    bins = data.draw(st.one_of(st.sampled_from([n_fft // 2 + 1, n_fft // 2, n_fft]), st.integers(n_fft // 4, n_fft)))
    parts = data.draw(st.sampled_from([BOTH, COSINES, SINES]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    window = rng.uniform(0.2, 1, taps)
    gains = rng.uniform(0.5, 2, 2 * bins if parts == BOTH else bins) * rng.choice([-1, 1])
    made = filters(n_fft, bins, taps, parts, window, gains)
    assert_found(made.astype(np.float32), n_fft, parts, units=4)


def test_not_looked_at() -> None:
    assert fit(filters(64)[:, :15].astype(np.float32)) is None
    assert fit(filters(64, bins=3, parts=1).astype(np.float32)) is None
    assert fit(filters(64)) is None  # float64
    broken = filters(64).astype(np.float32)
    broken[3, 4] = np.inf
    assert fit(broken) is None
    assert fit(np.zeros((66, 64), np.float32)) is None
    assert fit(np.ones((66, 64), np.float32)) is None


def test_random_filters_cost_little() -> None:
    data = np.random.default_rng(0).standard_normal((2048, 1024)).astype(np.float32)
    start = time.perf_counter()
    assert fit(data) is None
    assert time.perf_counter() - start < 2


def test_diagonals() -> None:
    window = hann(32).astype(np.float32)
    for data in (np.diag(window), np.eye(32, dtype=np.float16)):
        found = diagonal(data)
        assert found is not None
        np.testing.assert_array_equal(found, np.diagonal(data))
    changed = np.diag(window)
    changed[3, 4] = 1e-7
    for data in (changed, np.zeros((32, 32), np.float32), np.eye(8), np.eye(32)[::-1], np.eye(32)[:, :31]):
        assert diagonal(data) is None
