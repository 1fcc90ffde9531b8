"""`ortconv optimize`: what it prints and writes, and what it refuses to overwrite."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import onnx
import pytest

import ortconv
from ortconv.optimizer import optimization
from tests.command_line import run_cli
from tests.optimizer.bases import filters, hann
from tests.optimizer.models import parsed, rand, stock
from tests.running import run

TEXT = (
    "g (float[N,4,H,W] x) => (float[N,2,P,Q] y) { c = ConvTranspose <strides = [2, 2]> (x, w)\n"
    "d = Slice (c, s, e, i)\ny = Add (d, a) }"
)


def saved(path: pathlib.Path, *, external: str | None = None) -> onnx.ModelProto:
    model = parsed(TEXT, w=rand(4, 2, 4, 4), a=rand(2, 1, 1), s=[1, 1], e=[-1, -1], i=[2, 3])
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    onnx.save(copy, path, save_as_external_data=external is not None, location=external, size_threshold=0)
    return model


def test_command(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = saved(tmp_path / "generator.onnx")
    result = run_cli("optimize", "generator.onnx", "-o", "faster.onnx", "--report", "report.json")
    assert result.exit_code == 0, result.stderr
    shown = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert shown == [
        "node becomes folded in",
        "c org.ortconv TransposedConvolution Slice d into pads; Add y as bias",
        "",
        "generator.onnx -> faster.onnx: 1 of 1 ConvTranspose node rewritten",
    ]
    feeds = {"x": rand(1, 4, 3, 5)}
    (got,) = run(onnx.load("faster.onnx"), feeds, "native")
    np.testing.assert_allclose(got, stock(model, feeds)[0], rtol=1e-5, atol=1e-5)
    report = json.loads(pathlib.Path("report.json").read_text(encoding="utf-8"))
    assert report["rewritten"] == 1
    assert report["nodes"] == [
        {
            "name": "c",
            "becomes": "TransposedConvolution",
            "folded": ["Slice d into pads", "Add y as bias"],
            "kept": [],
            "reason": "",
            "op_type": "ConvTranspose",
            "recognised": "",
        }
    ]
    assert not list(tmp_path.glob(".ortconv*"))
    assert not list(tmp_path.glob("*.data"))


def test_the_api_returns_what_convert_returns() -> None:
    model = parsed(TEXT, w=rand(4, 2, 4, 4), a=rand(2, 1, 1), s=[1, 1], e=[-1, -1], i=[2, 3])
    got = ortconv.optimize(model)
    assert isinstance(got, onnx.ModelProto)
    report = ortconv.optimization(model)
    assert isinstance(report, ortconv.Optimization)
    assert report.rewritten == 1
    assert report.to_proto() == got


def test_external_data_stays_external(tmp_path: pathlib.Path) -> None:
    model = saved(tmp_path / "big.onnx", external="weights.bin")
    (tmp_path / "out").mkdir()
    result = run_cli("optimize", tmp_path / "big.onnx", "-o", tmp_path / "out" / "fast.onnx")
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fast.onnx", "fast.onnx.data"]
    feeds = {"x": rand(1, 4, 3, 5)}
    (got,) = run(onnx.load(tmp_path / "out" / "fast.onnx"), feeds, "native")
    np.testing.assert_allclose(got, stock(model, feeds)[0], rtol=1e-5, atol=1e-5)
    light = onnx.load(tmp_path / "out" / "fast.onnx", load_external_data=False)
    assert {entry.name: entry.data_location for entry in light.graph.initializer}["w"] == onnx.TensorProto.EXTERNAL


@pytest.mark.parametrize(
    ("data", "out"), [(None, "m.onnx"), (None, "link.onnx"), ("f.onnx.data", "f.onnx"), ("d.bin", "d.bin")]
)
def test_files_of_the_model_are_not_overwritten(tmp_path: pathlib.Path, data: str | None, out: str) -> None:
    saved(tmp_path / "m.onnx", external=data)
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = run_cli("optimize", tmp_path / "m.onnx", "-o", tmp_path / out)
    assert result.exit_code == 2
    assert "would overwrite a file that this call reads or writes" in result.stderr
    with pytest.raises(ValueError, match="choose another output"):
        optimization(tmp_path / "m.onnx").save(tmp_path / out)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_failures_write_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xfe no model")
    text = "g (float[N,4,H,W] x) => (float[N,2,P,Q] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }"
    old = parsed(text, opset=6, w=rand(4, 2, 4, 4))
    onnx.save(old, tmp_path / "old.onnx")
    before = sorted(tmp_path.iterdir())
    for name, text in (("bad.onnx", "is not an ONNX model"), ("none.onnx", "cannot be read"), ("old.onnx", "7 to 25")):
        result = run_cli("optimize", tmp_path / name, "-o", tmp_path / "out.onnx", "--report", tmp_path / "r.json")
        assert result.exit_code == 1
        assert text in result.stderr
    assert sorted(tmp_path.iterdir()) == before
    result = run_cli("optimize", tmp_path / "old.onnx", "-o", tmp_path / "o.onnx", "--report", tmp_path / "o.onnx")
    assert result.exit_code == 1


def test_columns_without_text_are_left_out(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "g (double[N,4,H,W] x) => (double[N,2,P,Q] c) { c = ConvTranspose <strides = [2, 2]> (x, w) }"
    onnx.save(parsed(text, w=rand(4, 2, 4, 4).astype(np.float64)), "double.onnx")
    result = run_cli("optimize", "double.onnx", "-o", "same.onnx")
    assert result.exit_code == 0, result.stderr
    heading, row = (line.split() for line in result.stdout.splitlines()[:2])
    assert (heading, row[:2]) == (["node", "becomes", "left", "alone"], ["c", "unchanged"])


def test_fourier_transforms(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "g (float[N,1,L] x) => (float[N,C,T] c, float[N,D,T] d, float[N,1,P] y) { c = Conv <strides = [8]> (x, w)\n"
        "d = Conv <strides = [8]> (x, u)\ny = ConvTranspose <strides = [8]> (c, w) }"
    )
    basis = filters(32, window=hann(32))
    wrong = basis.copy()
    wrong[2, 3] *= 1.001
    tensors = {"w": basis.astype(np.float32)[:, np.newaxis], "u": wrong.astype(np.float32)[:, np.newaxis]}
    onnx.save(parsed(text, **tensors), "vocoder.onnx")
    result = run_cli("optimize", "vocoder.onnx", "-o", "faster.onnx", "--report", "report.json")
    assert result.exit_code == 0, result.stderr
    shown = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert shown[0] == "node becomes recognised left alone"
    assert shown[1].startswith("c org.ortconv ForwardSTFT n_fft 32, hop 8, window 32, bins 17; filters differ by ")
    assert shown[2].startswith("d unchanged its filters resemble those of a Fourier transform, n_fft 32, and are none")
    assert shown[3].startswith("y org.ortconv InverseSTFT n_fft 32, hop 8, window 32, bins 17; filters differ by ")
    assert shown[-1] == "vocoder.onnx -> faster.onnx: 2 of 3 nodes rewritten"
    nodes = json.loads(pathlib.Path("report.json").read_text(encoding="utf-8"))["nodes"]
    assert [node["op_type"] for node in nodes] == ["Conv", "Conv", "ConvTranspose"]
    assert [node["becomes"] for node in nodes] == ["ForwardSTFT", "", "InverseSTFT"]
    before = sorted(tmp_path.iterdir())
    result = run_cli("explain", "vocoder.onnx")
    assert result.exit_code == 0, result.stderr
    explained = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert explained[: len(shown) - 1] == shown[:-1]
    assert explained[len(shown) - 1] == "`ortconv optimize` would rewrite 2 of 3 nodes"
    assert sorted(line[:9] for line in explained[-5:-2]) == ["Conv c cl", "Conv d le", "ConvTrans"]
    assert explained[-1] == "`ortconv.register_ep` would claim 2 of 3 nodes"
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_without_such_layers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(parsed("g (float[N,4,L] x) => (float[N,2,T] y) { y = Conv (x, w) }", w=rand(2, 4, 20)), "other.onnx")
    text = "nothing: the model has no ConvTranspose, STFT or DFT, and no Conv with filters of a Fourier transform"
    result = run_cli("optimize", "other.onnx", "-o", "same.onnx")
    assert (result.exit_code, result.stdout.splitlines()) == (0, [f"other.onnx -> same.onnx: {text}"])
    result = run_cli("explain", "other.onnx")
    told = [f"`ortconv optimize` would rewrite {text}", "`ortconv.register_ep` would claim nothing"]
    assert (result.exit_code, result.stdout.splitlines()) == (0, told)


def test_what_the_execution_provider_claims(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = """g (float[1,4,5,5] x, float[2,8,1] s) => (float[a,b,c,d] y, float[e,f,g_] z) {
        t = ConvTranspose <strides = [2, 2]> (x, w)
        u = Relu (t)
        y = Pad (u, front)
        z = DFT (s)
    }"""
    model = parsed(text, 17, w=rand(4, 4, 3, 3), front=[0, 0, 1, 0, 0, 0, 0, 0])
    for node, name in zip(model.graph.node, ("up", "act", "pad", "dft"), strict=True):
        node.name = name
    onnx.save(model, "m.onnx")
    result = run_cli("explain", "m.onnx")
    assert result.exit_code == 0, result.stderr
    shown = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "ConvTranspose up claimed Relu act Pad pad: it puts 1 positions in front" in shown
    assert "DFT dft left its length is 8, for which a fast Fourier transform does not pay" in shown
    assert shown[-1] == "`ortconv.register_ep` would claim 1 of 2 nodes"
    assert [each.name for each in tmp_path.iterdir()] == ["m.onnx"]


def test_a_model_that_onnx_runtime_does_not_load(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = parsed("g (float[N] x) => (float[N] y) { y = Relu (x) }", 20)
    model.graph.node[0].domain = "nowhere"
    model.opset_import.append(onnx.helper.make_opsetid("nowhere", 1))
    onnx.save(model, "m.onnx")
    result = run_cli("explain", "m.onnx")
    assert result.exit_code == 0
    assert "what the execution provider claims is not known: m.onnx" in result.stderr
