"""No wrong conversion passes: models with one change each, and the same models without one."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import ortconv
from ortconv.model_io import input_data
from ortconv.model_io.input_data import Array
from ortconv.verification import declared_inputs
from tests.shared import SHARED
from tests.verification.mutants import effect, mutants

pytest.importorskip("openvino", reason="OpenVINO is the oracle")

WRONG = 1e-4
"""Relative change, of a node's results and of the outputs, from which on a changed model is a wrong one."""
NONE = ("none",)


def passed(source: pathlib.Path, count: int, seed: int, folder: pathlib.Path) -> tuple[int, list[str]]:
    """Verifies changed conversions of a source; returns how many were wrong, and what had been done to those passed."""
    model = ortconv.conversion(source, semantics="runtime").to_proto()
    feeds: Mapping[str, Array] = input_data.fill(declared_inputs(source), {}, {}, seed=0)
    wrong, missed = 0, []
    for mutant in mutants(model, count, seed):
        if min(effect(model, mutant, feeds)) <= WRONG:
            continue
        wrong += 1
        onnx.save(mutant.model, folder / "mutant.onnx")
        try:
            if ortconv.verify(source, folder / "mutant.onnx", semantics="runtime", backends=NONE).agrees:
                missed.append(mutant.what)
        except ortconv.OrtconvError:
            pass  # No model at all is not passed either.
    return wrong, missed


@pytest.fixture(params=["floats", "bytes"])
def network(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    """A small network with most of what changes apply to; of bytes, with rounded data and weights."""
    import openvino
    from openvino import opset13 as op

    rng = np.random.default_rng(0)

    def constant(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    def rounded(data: object, bound: float, levels: int = 256) -> object:
        if request.param == "floats":
            return data
        bounds = [op.constant(np.float32(each)) for each in (-bound, bound, -bound, bound)]
        return op.fake_quantize(data, *bounds, levels)

    x = op.parameter([1, 3, 12, 12], openvino.Type.f32, name="x")
    y = op.convolution(
        rounded(x, 3), rounded(op.constant(constant(8, 3, 3, 3)), 3, 255), [1, 1], [1, 1], [1, 1], [1, 1]
    )
    y = op.relu(op.add(y, op.constant(constant(1, 8, 1, 1))))
    y = op.max_pool(y, [2, 2], [1, 1], [1, 1], [1, 1], [3, 3]).output(0)
    y = op.convolution(
        rounded(y, 30), rounded(op.constant(constant(8, 8, 1, 1)), 3, 255), [1, 1], [0, 0], [0, 0], [1, 1]
    )
    y = op.sigmoid(op.multiply(y, op.constant(np.float32(0.1))))
    y = op.transpose(op.reshape(op.avg_pool(y, [1, 1], [0, 0], [0, 0], [3, 3], True), [1, 8, 16], False), [0, 2, 1])
    y = op.mvn(y, [2], True, 1e-3, "inside_sqrt")
    y = op.softmax(op.matmul(y, op.constant(constant(8, 8)), False, False), 1)
    path = tmp_path / "network.xml"
    openvino.save_model(openvino.Model([y], [x], "net"), path, compress_to_fp16=False)
    return path


def test_the_conversion_itself_agrees(network: pathlib.Path) -> None:
    assert ortconv.verify(network, backends=NONE).agrees


def test_no_mutant_passes(network: pathlib.Path, tmp_path: pathlib.Path) -> None:
    wrong, missed = passed(network, 18, 0, tmp_path)
    assert not missed
    assert wrong >= 6


@pytest.mark.sweep
@pytest.mark.parametrize("source", sorted(SHARED.glob("public_irs/*/model.xml")), ids=lambda path: path.parent.name)
def test_no_mutant_of_a_public_network_passes(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    wrong, missed = passed(source, 40, 0, tmp_path)
    assert not missed
    assert wrong


@pytest.mark.sweep
@pytest.mark.parametrize("source", sorted(SHARED.glob("public_irs/*/model.xml")), ids=lambda path: path.parent.name)
def test_public_networks_agree(source: pathlib.Path) -> None:
    assert ortconv.verify(source, backends=NONE).agrees
