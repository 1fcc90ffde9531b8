"""The node tests of the onnx package as cases: each becomes an OpenVINO IR, and that is converted back and run.

``python -m tests.converters.openvino.onnx_nodes [text...]`` judges the tests whose names contain one of the texts
(all without any) and prints one line per test that did not match, and a table by op type.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib
import multiprocessing
import os
import pathlib
import pkgutil
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Literal

import numpy as np
import onnx
import onnx.backend.test.case.node as node_tests
import onnx.numpy_helper
import openvino
from onnx.backend.test.case.test_case import TestCase

from ortconv.api import Conversion, conversion
from ortconv.errors import CheckError, ConversionError, ConversionErrors, OrtconvError
from tests.converters.openvino.live import assert_close, run_onnx, run_openvino

__all__ = ["Outcome", "judge", "judge_all", "known", "load"]

os.environ.setdefault("CI", "true")
"""Else OpenVINO's converter starts a process per model to report its use."""

Verdict = Literal["matched", "refused", "differs", "invalid", "ort-failed", "broken", "openvino-cannot"]
VERDICTS: Sequence[Verdict] = ("matched", "refused", "differs", "invalid", "ort-failed", "broken", "openvino-cannot")

_BOUND = 128
"""In units of the last place of the largest value: whole formulas are compared, not single roundings."""

_RANDOM = "draws random numbers"
_TIES = "OpenVINO's CPU plugin gives the indices of equal values in an order of its own"
_KNOWN: dict[str, str] = {
    **dict.fromkeys(
        (
            "test_bernoulli",
            "test_bernoulli_double",
            "test_bernoulli_double_expanded",
            "test_bernoulli_expanded",
            "test_bernoulli_seed",
            "test_bernoulli_seed_expanded",
        ),
        _RANDOM,
    ),
    **dict.fromkeys(("test_top_k_same_values", "test_top_k_same_values_2d", "test_top_k_same_values_largest"), _TIES),
    "test_tile": "OpenVINO's CPU plugin reads other memory",
}
"""Tests on which OpenVINO's CPU plugin is no reference, and why."""


def known(test: str) -> str | None:
    """Returns why a test is not expected to match, or None."""
    return _KNOWN.get(test)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a node test.

    Attributes:
        test: Its name.
        op_type: The ONNX op that it tests.
        verdict: "matched"; "refused" by our conversion; the numbers "differ"; the model is "invalid" or "ort-failed";
            the conversion is "broken" by an error that is no refusal; or OpenVINO cannot read, write or run it.
        detail: Why.
        ops: Types of the OpenVINO layers that were refused.
    """

    test: str
    op_type: str
    verdict: Verdict
    detail: str = ""
    ops: tuple[str, ...] = ()


def load(modules: Iterable[str] | None = None) -> dict[str, TestCase]:
    """Returns the node tests of some modules of ``onnx.backend.test.case.node``, by name; of all in ten seconds."""
    found: list[TestCase] = node_tests._NodeTestCases
    names = [module.name for module in pkgutil.iter_modules(node_tests.__path__)] if modules is None else modules
    prefixes = tuple(f"{node_tests.__name__}.{name}" for name in names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for prefix in prefixes:
            before = len(found)
            importlib.import_module(prefix)
            for case in found[before:]:
                _MODULES[case.name] = prefix
    return {case.name: case for case in found if _MODULES[case.name] in prefixes}


_MODULES: dict[str, str] = {}


def judge(case: TestCase) -> Outcome:
    """Converts a test to IR and back, and compares ONNX Runtime with OpenVINO on the test's inputs."""
    assert case.model is not None
    told = functools.partial(Outcome, case.name, _tested(case.model))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.xml"
        try:
            model = _to_ir(case.model, path)
            feeds = _feeds(case, model)
            expected = run_openvino(model, feeds)
        except Exception as error:  # whatever OpenVINO throws
            return told("openvino-cannot", _line(error))
        verdict, detail, ops = _compare(path, feeds, expected)
        if verdict == "differs":
            detail += "; OpenVINO is right" if _agrees(expected, case) else "; OpenVINO differs from ONNX as well"
        return told(verdict, detail, ops)


def _compare(
    path: pathlib.Path, feeds: list[list[np.ndarray]], expected: list[list[np.ndarray]]
) -> tuple[Verdict, str, tuple[str, ...]]:
    try:
        converted = conversion(path)
    except ConversionErrors as errors:
        refused = [error for error in errors.exceptions if isinstance(error, ConversionError)]
        ops = [error.node.op_type if error.node else "" for error in refused]
        problems = [f"{op}: {error.problem}" for op, error in zip(ops, refused, strict=True)]
        return "refused", " | ".join(dict.fromkeys(problems)), tuple(dict.fromkeys(ops))
    except CheckError as error:
        return "invalid", error.problem, ()
    except OrtconvError as error:
        return "refused", str(error).removeprefix(str(path)), ("the file",)
    except Exception as error:  # a defect of ours, to be shown among the others
        return "broken", _line(error), ()
    return _run(converted, feeds, expected)


def _run(
    converted: Conversion, feeds: list[list[np.ndarray]], expected: list[list[np.ndarray]]
) -> tuple[Verdict, str, tuple[str, ...]]:
    try:
        actual = run_onnx(converted, feeds)
    except Exception as error:  # whatever ONNX Runtime throws
        return "ort-failed", _line(error), ()
    try:
        for ours, theirs in zip(actual, expected, strict=True):
            for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
                assert_close(mine, other, _BOUND, f"output {index}")
    except (AssertionError, TypeError, ValueError) as error:
        return "differs", _line(error), ()
    return "matched", "", ()


def _to_ir(model: onnx.ModelProto, path: pathlib.Path) -> openvino.Model:
    source = path.with_suffix(".onnx")
    onnx.save(model, source)
    openvino.save_model(openvino.convert_model(source), path, compress_to_fp16=False)
    return _core().read_model(path)


@functools.cache
def _core() -> openvino.Core:
    return openvino.Core()


def _feeds(case: TestCase, model: openvino.Model) -> list[list[np.ndarray]]:
    """Returns the test's data for the inputs that are left: OpenVINO drops those that nothing uses.

    One that is an output as well may have the output's name only, so that names count where inputs are missing only.
    """
    assert case.model is not None
    given = case.model.graph.input
    left = set().union(*(each.names for each in model.inputs))
    used = [place for place, each in enumerate(given) if each.name in left or len(given) == len(model.inputs)]
    return [[_array(inputs[place]) for place in used] for inputs, _ in case.data_sets or []]


def _array(data: Any) -> np.ndarray:
    return onnx.numpy_helper.to_array(data) if isinstance(data, onnx.TensorProto) else np.asarray(data)


def _agrees(results: list[list[np.ndarray]], case: TestCase) -> bool:
    try:
        for arrays, (_, wanted) in zip(results, case.data_sets or [], strict=True):
            for array, right in zip(arrays, wanted, strict=True):
                np.testing.assert_allclose(array, right, rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-5))
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def _tested(model: onnx.ModelProto) -> str:
    return "+".join(dict.fromkeys(node.op_type for node in model.graph.node)) if len(model.graph.node) < 4 else "(many)"


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]


def judge_all(cases: Iterable[TestCase]) -> Iterator[Outcome]:
    """Judges tests in a process of their own, which is started anew where OpenVINO takes it down."""
    pending = collections.deque(cases)
    with contextlib.ExitStack() as stack:
        pool = _worker(stack)
        while pending:
            case = pending.popleft()
            try:
                yield pool.submit(judge, case).result()
            except BrokenProcessPool:
                assert case.model is not None
                yield Outcome(case.name, _tested(case.model), "openvino-cannot", "the process died")
                pool = _worker(stack)


def _worker(stack: contextlib.ExitStack) -> concurrent.futures.ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return stack.enter_context(concurrent.futures.ProcessPoolExecutor(1, mp_context=context))


def _table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        rows[outcome.op_type][outcome.verdict] += 1
        rows["TOTAL"][outcome.verdict] += 1
    yield f"{'op':40}" + "".join(f"{verdict:>16}" for verdict in VERDICTS)
    for op_type, counts in sorted(rows.items(), key=lambda row: (row[0] == "TOTAL", row[0])):
        yield f"{op_type[:40]:40}" + "".join(f"{counts[verdict] or '.':>16}" for verdict in VERDICTS)
    refused: collections.Counter[str] = collections.Counter(op for outcome in outcomes for op in outcome.ops)
    yield "refused layers, by number of tests: " + ", ".join(f"{op} {count}" for op, count in refused.most_common())


def main(texts: Sequence[str]) -> None:
    """Prints what became of the tests whose names contain one of the texts."""
    chosen = [case for name, case in load().items() if not texts or any(text in name for text in texts)]
    outcomes: list[Any] = []
    for outcome in judge_all(chosen):
        outcomes.append(outcome)
        if outcome.verdict != "matched":
            reason = known(outcome.test)
            told = "" if reason is None else f" [known: {reason}]"
            print(f"{outcome.verdict:16}{outcome.test}: {outcome.detail}{told}", flush=True)
    print("\n".join(_table(outcomes)))


if __name__ == "__main__":
    main(sys.argv[1:])
