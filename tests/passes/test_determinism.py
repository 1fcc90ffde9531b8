"""Equal sources convert to equal bytes: no order depends on where Python puts its objects."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import model_of
from tests.folders import ROOT
from tests.passes.quantization.quantized_layers import IMAGE, SIGNED, UNSIGNED, convolved, int8_weights, rounded

CHILD = """
import hashlib, sys
garbage = [object() for _ in range(int(sys.argv[2]))]
garbage = garbage[::3]
from ortconv.api import conversion
print(hashlib.sha256(conversion(sys.argv[1]).to_proto().SerializeToString()).hexdigest())
"""


def network(x: Any) -> Any:
    """Returns branches with other scales each, a concatenation whose inputs have several quantizers, and a sum."""
    branches = []
    for seed in range(6):
        scale = np.float32(1 + seed / 8)
        low, high = SIGNED[0] * scale, SIGNED[1] * scale
        weights = int8_weights(8, 8, 3, 3, seed=seed)
        y = rounded(convolved(rounded(x, (low, high)), weights), UNSIGNED)
        branches.append(rounded(convolved(y, weights)))
    y = rounded(convolved(opset1.concat(branches, 1), int8_weights(8, 48, 1, 1)), UNSIGNED)
    return rounded(opset1.add(y, rounded(convolved(y, int8_weights(8, 8, 3, 3, seed=9)), UNSIGNED)), UNSIGNED)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Returns the path of an IR file."""
    path = tmp_path / "network.xml"
    openvino.save_model(model_of(network, [[np.zeros(IMAGE, np.float32)]]), path, compress_to_fp16=False)
    return path


def test_one_process(path: pathlib.Path) -> None:
    first, second = (conversion(path).to_proto() for _ in range(2))
    assert sum(node.op_type == "QuantizeLinear" for node in first.graph.node) >= 10
    assert first.SerializeToString() == second.SerializeToString()


@pytest.mark.slow
def test_processes_with_other_memory(path: pathlib.Path) -> None:
    """Objects lie at other addresses in each process, so that sets of them have other orders."""
    expected = hashlib.sha256(conversion(path).to_proto().SerializeToString()).hexdigest()
    for garbage in (0, 1000, 123_457):
        command = [sys.executable, "-c", CHILD, str(path), str(garbage)]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert child.stdout.strip() == expected
