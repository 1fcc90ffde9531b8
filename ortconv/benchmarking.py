"""Times a model in ONNX Runtime without and with our library, in turns, after comparing the outputs."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import statistics
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import onnx
import onnx_ir as ir

from ortconv import optimizer
from ortconv.errors import CheckError, ModelFormatError
from ortconv.model_io import protos
from ortconv.model_io.input_data import Array, Input
from ortconv.opset.domain import DOMAIN
from ortconv.progress import Progress, silent
from ortconv.runtime import choices, provider
from ortconv.runtime.choices import Choice
from ortconv.runtime.library import Backend
from ortconv.runtime.provider import Claim
from ortconv.runtime.runner import Model
from ortconv.verification.compare import ROUNDINGS, Comparison, Tolerance, compare, tolerance_of

__all__ = ["LEAST_ROUNDS", "SLOWER", "Bench", "Pair", "Timing", "our_nodes", "quartiles", "tolerance_for"]

_Side = Literal["stock", "plugin", "optimized"]
_TF32_EPSILON = 2.0**-10

SLOWER = 1.1
LEAST_ROUNDS = 7


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of one side.

    Attributes:
        seconds: Seconds per run, one entry per round.
    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)


@dataclasses.dataclass(frozen=True)
class Bench:
    """The result of a benchmark.

    Attributes:
        outputs: The outputs compared with ONNX Runtime's own; those of an optimized model come last.
        stock: ONNX Runtime alone, our nodes by their function bodies; None where an output differs.
        plugin: ONNX Runtime with our plugin, or our execution provider; None where an output differs.
        choices: What computes each convolution of ours on the CPU, for the sizes that it met.
        optimized: The model as `ortconv.optimize` rewrites it, with our plugin; None where it was not wanted.
    """

    outputs: tuple[Comparison, ...]
    stock: Timing | None
    plugin: Timing | None
    choices: tuple[Choice, ...] = ()
    optimized: Timing | None = None

    @property
    def agrees(self) -> bool:
        """Whether every output does."""
        return all(comparison.agrees for comparison in self.outputs)

    @property
    def ratios(self) -> tuple[float, ...]:
        """How many times as fast the plugin is, one entry per round; empty where nothing was timed."""
        if self.stock is None or self.plugin is None:
            return ()
        return tuple(a / b for a, b in zip(self.stock.seconds, self.plugin.seconds, strict=True))

    @property
    def slower(self) -> bool:
        """Whether the plugin is slower, beyond what noise does.

        It is where, of at least LEAST_ROUNDS rounds, it takes SLOWER times as long in three quarters, and the fastest
        of all its rounds takes SLOWER times as long as the fastest without it: what else the machine does makes some
        rounds slower, in turns, but no fastest round.
        """
        if self.stock is None or self.plugin is None or len(self.ratios) < LEAST_ROUNDS:
            return False
        usual = quartiles(self.ratios)[1] * SLOWER <= 1
        return usual and min(self.plugin.seconds) >= SLOWER * min(self.stock.seconds)


class Pair:
    """A model, loaded without and with the plugin; or without and with our execution provider, and optimized.

    Args:
        path: The file.
        threads: Threads of each session; 0 for ONNX Runtime's default.
        providers: As for `ortconv.runtime.runner.Model`.
        tf32: Likewise.
        ep: Whether it is about our execution provider.

    Attributes:
        inputs: What the model takes.
        claims: What the execution provider does with its nodes.
        problem: Why the model cannot be optimized, or "".

    Raises:
        ExecutionError: ONNX Runtime does not load it.
        PluginError: There is no plugin, or the model cannot run without it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        threads: int,
        *,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        tf32: bool = False,
        ep: bool = False,
    ) -> None:
        folder = tempfile.mkdtemp(prefix="ortconv-bench-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.problem = ""
        self._choices = pathlib.Path(folder, "choices")
        report = pathlib.Path(folder, "report")

        def load(model: str | os.PathLike[str] | onnx.ModelProto, backend: Backend, **more: Any) -> Model:
            name = os.fspath(path)
            return Model(model, name, backend=backend, providers=providers, threads=threads, tf32=tf32, **more)

        self._models: dict[_Side, Model] = {"stock": load(path, "none")}
        if ep:
            options = {provider.REPORT_OPTION: os.fspath(report)}
            self._models["plugin"] = load(path, "ep", choices=self._choices, ep_options=options)
            try:
                optimized, data_folder = optimizer.optimize(path), os.path.dirname(os.path.abspath(path))
                self._models["optimized"] = load(optimized, "native", folder=data_folder)
            except (CheckError, ModelFormatError) as error:
                self.problem = str(error)
        else:
            self._models["plugin"] = load(path, "native", choices=self._choices)
        self.inputs: Sequence[Input] = self._models["plugin"].inputs
        self.claims: Sequence[Claim] = provider.read_report(report)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the model once, with our library; see `ortconv.runtime.runner.Model`."""
        return self._models["plugin"].run(feeds)

    def bench(
        self,
        feeds: Mapping[str, Array],
        *,
        rounds: int,
        seconds: float,
        tolerance: Tolerance,
        progress: Progress = silent,
    ) -> Bench:
        """Compares the answers; if they agree, times all sides in turns.

        Args:
            feeds: An array for every input.
            rounds: How often each side has its turn.
            seconds: How long a turn lasts, about.
            tolerance: Relative error up to which outputs agree.
            progress: Told how many rounds are done, between rounds.

        Raises:
            ExecutionError: ONNX Runtime reports a failure.
        """
        sides = list(self._models)
        expected, *others = (model.run(feeds) for model in self._models.values())
        outputs = tuple(
            compare(
                f"{name} (optimized)" if side == "optimized" else name, actual.get(name), array, tolerance.of(array)
            )
            for side, actual in zip(sides[1:], others, strict=True)
            for name, array in expected.items()
        )
        if not all(comparison.agrees for comparison in outputs):
            return Bench(outputs, None, None)
        calls = {side: model.repeatable(feeds) for side, model in self._models.items()}
        runs = {side: max(1, round(seconds / _time(call, 1))) for side, call in calls.items()}
        times: dict[_Side, list[float]] = {side: [] for side in sides}
        for number in range(rounds):
            progress("rounds", number, rounds)
            for side in sides if number % 2 == 0 else sides[::-1]:
                times[side].append(_time(calls[side], runs[side]))
        found = {(choice.node, choice.sizes): choice for choice in choices.read(self._choices)}
        timings = {side: Timing(tuple(seconds)) for side, seconds in times.items()}
        return Bench(outputs, timings["stock"], timings["plugin"], tuple(found.values()), timings.get("optimized"))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Returns the first and the third quartile."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def our_nodes(model: onnx.ModelProto) -> int:
    """Returns how many nodes of ours the graph has, nested graphs included."""
    return sum(node.domain == DOMAIN for node in protos.nodes(model.graph.node))


def tolerance_for(model: onnx.ModelProto, *, tf32: bool = False) -> Tolerance:
    """Returns the tolerance that the narrowest float type of a model's inputs, weights, casts and outputs asks for.

    Integers are exact. float32 allows 2e-5, since sums may be formed in any order; a narrower type five roundings, and
    so does float32 where products are formed in TF32; a model of float64 alone 1e-11.
    """
    graph = model.graph
    values = [*graph.input, *graph.output, *graph.value_info]
    numbers = {value.type.tensor_type.elem_type for value in values} | {each.data_type for each in graph.initializer}
    for node in protos.nodes(graph.node):
        numbers |= {each.i for each in node.attribute if node.op_type == "Cast" and each.name == "to"}
        numbers |= {each.t.data_type for each in node.attribute if each.HasField("t")}
    types = {ir.DataType(number) for number in numbers}
    return tolerance_of(types, ROUNDINGS * _TF32_EPSILON) if tf32 else tolerance_of(types)


def _time(call: Callable[[], object], runs: int) -> float:
    """Returns the seconds per run, after one that does not count: the other side's threads may still be spinning."""
    call()
    begin = time.perf_counter()
    for _ in range(runs):
        call()
    return (time.perf_counter() - begin) / runs
