"""The device sources compile for every compute capability, and keep their sums in registers.

programs.txt lists what the shapes of the benchmarks ask for; a native test keeps it complete.
"""

from pathlib import Path

import pytest

from tests.cuda_sources.nvrtc import compile_program, library

SMS = (75, 80, 90, 100, 120)
# A kernel whose sums do not fit in registers is slow; what is kept aside before its loop does no harm.
MOST_SPILLED_BYTES = 256

Program = tuple[int, str, tuple[str, ...]]  # the device's sm, the source, the options

NVRTC = library()
pytestmark = pytest.mark.skipif(NVRTC is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")


def _programs() -> list[Program]:
    programs = []
    for line in (Path(__file__).parent / "programs.txt").read_text().splitlines():
        sms, source, *options = line.split()
        programs.extend((int(sm), source, tuple(options)) for sm in sms.split(","))
    return sorted(programs)


def _covering(programs: list[Program]) -> list[Program]:
    """Few of the programs, in which every source meets every device, also with integers, and each option occurs."""
    seen = set()
    chosen = []
    for sm, source, options in programs:
        integers = "-DELEMENT=3" in options
        facts = {(source, sm, integers), *((source, option) for option in options)}
        if not facts <= seen:
            seen |= facts
            chosen.append((sm, source, options))
    return chosen


PROGRAMS = _programs()


def _check(sm: int, source: str, options: tuple[str, ...]) -> None:
    compilation = compile_program(NVRTC, source, list(options), sm)
    assert compilation.ok, compilation.log
    assert compilation.image
    functions = compilation.functions()
    assert functions, compilation.log
    for function in functions:
        assert function.spilled_bytes <= MOST_SPILLED_BYTES, f"{source} {options} sm_{sm}: {function}"


@pytest.mark.parametrize(("sm", "source", "options"), _covering(PROGRAMS))
def test_program_compiles(sm: int, source: str, options: tuple[str, ...]) -> None:
    _check(sm, source, options)


@pytest.mark.parametrize("sm", SMS)
def test_direct_kernel_compiles(sm: int) -> None:
    for element in range(3):
        _check(sm, "direct", (f"-DELEMENT={element}", "-DACTIVATE=1"))
    integers = ("-DELEMENT=3", "-DX_SIGNED=0", "-DW_SIGNED=1")
    _check(sm, "direct", (*integers, "-DACTIVATE=0", "-DQUANTIZED=0"))
    _check(sm, "direct", (*integers, "-DACTIVATE=1", "-DQUANTIZED=1", "-DY_SIGNED=1"))


def _check_fourier(sm: int, element: int, double: int) -> None:
    types = (f"-DDOUBLE={double}", f"-DELEMENT={element}")
    for load, store in ((1, 1), (2, 3), (3, 4), (0, 0)):
        _check(sm, "fourier", (*types, f"-DLOAD={load}", f"-DSTORE={store}"))
    for scratch in (0, 1):
        _check(sm, "overlap_add", (*types, f"-DSCRATCH={scratch}"))


FOURIER_TYPES = ((0, 0), (0, 1), (1, 0), (2, 0), (4, 1))
"""ELEMENT and DOUBLE."""


@pytest.mark.parametrize(("sm", "types"), list(zip(SMS, FOURIER_TYPES, strict=True)))
def test_fourier_kernels_compile(sm: int, types: tuple[int, int]) -> None:
    _check_fourier(sm, *types)


@pytest.mark.sweep
@pytest.mark.parametrize("sm", SMS)
@pytest.mark.parametrize("types", FOURIER_TYPES)
def test_every_fourier_kernel_compiles(sm: int, types: tuple[int, int]) -> None:
    _check_fourier(sm, *types)


def _one_device_each(programs: list[Program]) -> list[Program]:
    by_program: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for sm, source, options in programs:
        by_program.setdefault((source, options), []).append(sm)
    return [(sms[i % len(sms)], *program) for i, (program, sms) in enumerate(by_program.items())]


@pytest.mark.sweep
@pytest.mark.parametrize(("sm", "source", "options"), _one_device_each(PROGRAMS))
def test_every_program_compiles(sm: int, source: str, options: tuple[str, ...]) -> None:
    _check(sm, source, options)


def test_every_device_is_listed() -> None:
    assert {sm for sm, _, _ in PROGRAMS} == set(SMS)


def test_errors_are_reported() -> None:
    compilation = compile_program(NVRTC, "direct", ["-DELEMENT=1", "-DACTIVATE=(", "-Dconvolve=nothing"], 80)
    assert not compilation.ok
    assert "error" in compilation.log
