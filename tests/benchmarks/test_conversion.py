"""The benchmark of conversions runs, and conversions cost what they should: time by the op, memory not by the byte."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import ortconv
from benchmarks.conversion import Case, measure, write_ir

_MIB = 1 << 20


def test_weights_pass_through_without_being_held(tmp_path: pathlib.Path) -> None:
    found = measure(Case("weights", layers=4, layer_bytes=32 * _MIB, dense=True), tmp_path)
    assert found["peak_mib"] < 32
    model = onnx.load(tmp_path / "model.onnx")
    (weights, *others) = (tensor for tensor in model.graph.initializer if len(tensor.raw_data) > _MIB)
    assert len(others) == 3
    bytes_of_bin = np.fromfile(tmp_path / "model.bin", np.float32, 8 * _MIB)
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(weights).reshape(-1), bytes_of_bin)
    ortconv.check(tmp_path / "model.onnx")


@pytest.mark.slow
def test_weights_beyond_a_message_are_sparse_as_their_source(tmp_path: pathlib.Path) -> None:
    found = measure(Case("sparse", layers=3, layer_bytes=1024 * _MIB), tmp_path)
    assert found["peak_mib"] < 32
    data = (tmp_path / "model.onnx.data").stat()
    assert data.st_size >= 3 * 1024 * _MIB
    assert data.st_blocks * 512 < _MIB


@pytest.mark.slow
def test_time_grows_with_the_number_of_ops(tmp_path: pathlib.Path) -> None:
    short, long = (measure(Case("ops", ops=count), tmp_path)["cpu_seconds"] for count in (1500, 12000))
    assert long < 12 * short  # eight times the ops; quadratic cost would be 64 times the time


def test_synthetic_network_computes_what_openvino_does(tmp_path: pathlib.Path) -> None:
    write_ir(Case("small", ops=7, layers=2, layer_bytes=_MIB, dense=True), tmp_path / "model.xml")
    assert ortconv.verify(tmp_path / "model.xml").agrees
