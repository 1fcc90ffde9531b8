"""Whole networks in ONNX Runtime as they are, with our execution provider, and after `ortconv optimize`.

Run ``python -m benchmarks.provider``. The networks are those of `benchmarks.provider_networks`; it needs torch,
torchvision, torchaudio, transformers, diffusers, demucs, demucs-onnx and rapidocr-onnxruntime beside the packages of
the tests, and skips the networks of a package that is not installed. All three run in one process on one thread, in
turns, after their answers are compared. A turn during which somebody else slowed the core, as `benchmarks.turn` tells,
is repeated.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.engines import session_options
from benchmarks.networks import mean, options
from benchmarks.provider_networks import GROUPS, QUANTIZED
from benchmarks.quantized_sources import Missing
from benchmarks.turn import in_turns

__all__ = ["Found", "compare"]

Array = npt.NDArray[Any]
Run = Callable[[], list[Array]]

_ENGINES = ("ONNX Runtime", "provider", "optimized")
_TOLERANCE, _TOLERANCE_QUANTIZED = 1e-4, 0.1
"""Root mean square of the differences, relative to the largest magnitude of the output. ONNX Runtime convolves what it
has dequantized and rounds sums of floats, ours rounds sums of integers: some numbers of a quantized network are one
step apart."""
_SLOWER = 0.97
_HEADING = """| network | claimed | plain, ms | provider, ms | optimized, ms | plain / provider | plain / optimized |
|---|--:|--:|--:|--:|--:|--:|"""


@dataclasses.dataclass(frozen=True)
class Found:
    """What was found out about a network.

    Attributes:
        claimed: How many nodes the provider claims.
        milliseconds: The medians of ONNX Runtime, with the provider, and after `optimize`.
    """

    claimed: int
    milliseconds: tuple[float, float, float]

    @property
    def ratios(self) -> tuple[float, float]:
        """How many times as fast as ONNX Runtime it is with the provider, and after `optimize`."""
        plain, provider, optimized = self.milliseconds
        return plain / provider, plain / optimized


def compare(name: str, path: pathlib.Path, tolerance: float, rounds: int, seconds: float) -> Found:
    """Times a network.

    Args:
        name: How messages call it.
        path: The ONNX file, whose inputs have static shapes.
        tolerance: How large the root mean square of the differences may be, relative to the largest magnitude of the
            output.
        rounds: How many turns each has.
        seconds: How long a turn takes.

    Returns:
        What was found.

    Raises:
        click.ClickException: An answer differs from ONNX Runtime's.
    """
    with tempfile.TemporaryDirectory(prefix="ortconv-provider-") as folder:
        report = pathlib.Path(folder, "report")
        runs = dict(zip(_ENGINES, _engines(path, report), strict=True))
        claimed = _claimed(report)
        expected = runs["ONNX Runtime"]()
        for engine in _ENGINES[1:]:
            distance = max(map(_distance, runs[engine](), expected))
            if not distance <= tolerance:
                raise click.ClickException(f"{name}: {engine} differs from ONNX Runtime by {distance:.1e}")
        plain, provider, optimized = in_turns(runs, rounds, seconds).values()
    return Found(claimed, (plain * 1e3, provider * 1e3, optimized * 1e3))


def _distance(found: Array, right: Array) -> float:
    largest = float(np.max(np.abs(right), initial=0))
    return float(np.sqrt(np.mean(np.square(found - right, dtype=np.float64)))) / max(largest, 1e-30)


def _engines(path: pathlib.Path, report: pathlib.Path) -> Iterator[Run]:
    """Yields what runs the network once, in the order of `_ENGINES`."""
    import onnxruntime

    import ortconv
    from ortconv.runtime.provider import REPORT_OPTION
    from ortconv.runtime.saturation import make_products_exact

    feeds: dict[str, Array] = {}

    def of_session(session: Any) -> Run:
        if not feeds:
            rng = np.random.default_rng(1)
            feeds.update({each.name: rng.standard_normal(each.shape, np.float32) for each in session.get_inputs()})
        return lambda: list(session.run(None, feeds))

    plain, with_provider = session_options(1), session_options(1)
    make_products_exact(plain)  # as in sessions with our library
    yield of_session(onnxruntime.InferenceSession(path, plain, providers=["CPUExecutionProvider"]))
    ortconv.register_ep(with_provider, {REPORT_OPTION: os.fspath(report)})
    yield of_session(onnxruntime.InferenceSession(path, with_provider))
    yield of_session(ortconv.InferenceSession(ortconv.optimize(path), session_options(1)))


def _claimed(report: pathlib.Path) -> int:
    from ortconv.runtime.provider import read_report

    return sum(not claim.reason for claim in read_report(report))


@click.command()
@options
def main(texts: tuple[str, ...], rounds: int, seconds: float) -> None:
    """Compare whole networks without and with our execution provider, and print tables in Markdown."""
    logging.disable(logging.WARNING)
    every: list[Found] = []
    for heading, networks in GROUPS.items():
        tolerance = _TOLERANCE_QUANTIZED if heading == QUANTIZED else _TOLERANCE
        group: list[Found] = []
        for name, write in networks.items():
            if texts and not any(text in name for text in texts):
                continue
            with tempfile.TemporaryDirectory(prefix="ortconv-provider-") as folder:
                path = pathlib.Path(folder, "network.onnx")
                try:
                    write(path)
                except Missing as missing:
                    click.echo(f"{name} is skipped: {missing}", err=True)
                    continue
                found = compare(name, path, tolerance, rounds, seconds)
            if not group:
                click.echo(f"\n## {heading}\n")
                click.echo(_HEADING)
            group.append(found)
            cells = [f"{each:.2f}" for each in (*found.milliseconds, *found.ratios)]
            click.echo(f"| {name} | {found.claimed} | {' | '.join(cells)} |")
        if group:
            means = " | ".join(f"{mean(each):.2f}" for each in zip(*(each.ratios for each in group), strict=True))
            click.echo(f"| geometric mean | | | | | {means} |")
        every += group
    if not every:
        raise click.UsageError(f"no network has {' or '.join(map(repr, texts))} in its name")
    slower = sum(each.ratios[0] < _SLOWER for each in every)
    click.echo(f"\n{len(every)} networks; {slower} take more than {1 / _SLOWER - 1:.0%} longer with the provider.")


if __name__ == "__main__":
    main()
