"""Whole models with the execution provider: subgraphs, functions, shared weights, files, sessions and threads."""

from __future__ import annotations

import concurrent.futures
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.ep.sessions import claims, options, plain, session, with_provider
from tests.optimizer.models import parsed, rand

pytestmark = pytest.mark.usefixtures("library")

UNET = """g (float[N,8,H,V] x) => (float[N,m,h,v] y) {
    a = Conv (x, point)
    c1 = ConvTranspose <strides = [2, 2]> (a, w1, b1)
    r1 = Relu (c1)
    c2 = ConvTranspose <strides = [2, 2], pads = [1, 1, 0, 0]> (r1, w2)
    t = Tanh (c2)
    y = Mul (t, half)
}"""


def unet() -> onnx.ModelProto:
    tensors = {"point": rand(6, 8, 1, 1), "w1": rand(6, 4, 2, 2), "b1": rand(4), "w2": rand(4, 3, 3, 3)}
    model = parsed(UNET, **tensors, half=np.array(0.5, np.float32))
    model.graph.node[1].name, model.graph.node[3].name = "c1", "c2"
    return model


def test_runs_of_many_sizes_at_once() -> None:
    model = unet()
    made = session(model)
    feeds = [{"x": rand(1 + i % 2, 8, 3 + i % 5, 4 + i % 3)} for i in range(40)]
    right = [plain(model, each)[0] for each in feeds]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: made.run(None, each)[0], feeds))
    for got, expected in zip(found, right, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_sessions_share_options() -> None:
    model, made = unet(), options()
    feeds = {"x": rand(1, 8, 5, 5)}
    (right,) = plain(model, feeds)
    for each in [session(model, made) for _ in range(3)]:
        np.testing.assert_allclose(each.run(None, feeds)[0], right, atol=1e-5)


def test_a_model_that_onnx_runtime_saved(tmp_path: pathlib.Path) -> None:
    model, made = unet(), options(fuse="0")
    made.optimized_model_filepath = str(tmp_path / "saved.onnx")
    feeds = {"x": rand(1, 8, 5, 5)}
    (right,) = session(model, made).run(None, feeds)
    saved = onnx.load(tmp_path / "saved.onnx")
    assert [node.op_type for node in saved.graph.node].count("ConvTranspose") == 2
    np.testing.assert_allclose(session(saved).run(None, feeds)[0], right, atol=1e-5)
    np.testing.assert_allclose(plain(saved, feeds)[0], right, atol=1e-5)


def test_external_weights(tmp_path: pathlib.Path) -> None:
    model = unet()
    feeds = {"x": rand(1, 8, 5, 5)}
    (right,) = plain(model, feeds)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    np.testing.assert_allclose(session(path).run(None, feeds)[0], right, atol=1e-5)


def test_weights_that_several_nodes_read() -> None:
    text = """g (float[1,4,5,5] x) => (float[a,b,c,d] y, float[e,f,g_,h] z, float[4,4,3,3] v) {
        p = ConvTranspose <strides = [2, 2]> (x, w, b)
        y = Relu (p)
        z = ConvTranspose <group = 2> (x, w2)
        v = Neg (w)
    }"""
    model = parsed(text, w=rand(4, 4, 3, 3), b=rand(4), w2=rand(4, 2, 3, 3))
    model.graph.node[0].name, model.graph.node[2].name = "p", "z"
    feeds = {"x": rand(1, 4, 5, 5)}
    for got, right in zip(with_provider(model, feeds, "p Relu", "z"), plain(model, feeds), strict=True):
        np.testing.assert_allclose(got, right, atol=1e-5)


@pytest.mark.parametrize("turns", [True, False])
def test_bodies_of_if_and_loop(turns: bool) -> None:
    text = """g (float[1,4,5,5] x, bool turns, int64 n) => (float[a,b,c,d] y, float[e,f,g_,h] z) {
        y = If (turns) <
            then_branch = then () => (float[i,j,k,l] o) {
                q = ConvTranspose <strides = [2, 2]> (x, w, b)
                o = Relu (q)
            },
            else_branch = other () => (float[i,j,k,l] o) { o = ConvTranspose <pads = [1, 1, 1, 1]> (x, w) }
        >
        yes = Constant <value = bool {1}> ()
        z = Loop (n, yes, x) <
            body = turn (int64 at, bool go, float[m,o,p,q] s) => (bool still, float[m,o,p,q] next) {
                still = Identity (go)
                u = ConvTranspose <pads = [1, 1, 1, 1]> (s, w)
                next = Clip (u, low, high)
            }
        >
    }"""
    tensors = {"w": rand(4, 4, 3, 3), "b": rand(4), "low": np.float32(-1), "high": np.float32(1)}
    model = parsed(text, **{name: np.asarray(data) for name, data in tensors.items()})
    feeds = {"x": rand(1, 4, 5, 5), "turns": np.array(turns), "n": np.array(3)}
    found = claims(model)
    assert [each.reason for each in found] == [""] * 3
    for got, right in zip(session(model).run(None, feeds), plain(model, feeds), strict=True):
        np.testing.assert_allclose(got, right, atol=1e-5)


def test_a_value_that_a_subgraph_reads_is_not_fused_away() -> None:
    text = """g (float[1,4,5,5] x, bool turns) => (float[a,b,c,d] y, float[e,f,g_,h] z) {
        c = ConvTranspose (x, w)
        y = Relu (c)
        z = If (turns) <
            then_branch = then () => (float[i,j,k,l] o) { o = Neg (c) },
            else_branch = other () => (float[i,j,k,l] o) { o = Abs (c) }
        >
    }"""
    model = parsed(text, w=rand(4, 4, 3, 3))
    model.graph.node[0].name = "c"
    feeds = {"x": rand(1, 4, 5, 5), "turns": np.array(True)}
    for got, right in zip(with_provider(model, feeds, "c"), plain(model, feeds), strict=True):
        np.testing.assert_allclose(got, right, atol=1e-5)


def test_fused_nodes_make_onnx_runtime_log_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    made = options()
    made.log_severity_level = 2  # warnings
    session(unet(), made)
    logged = [line for line in "".join(capfd.readouterr()).splitlines() if "VerifyEachNodeIsAssignedToAnEp" not in line]
    assert logged == []


def test_functions_of_a_model() -> None:
    text = """
        <ir_version: 10, opset_import: ["": 21, "local": 1]>
        g (float[1,4,5,5] x, float[4,4,3,3] w) => (float[a,b,c,d] y) { y = local.up <stride = 2> (x, w) }
        <domain: "local", opset_import: ["": 21]>
        up <stride> (x, w) => (y) {
            c = ConvTranspose <strides = [2, 2]> (x, w)
            y = Relu (c)
        }"""
    model = onnx.parser.parse_model(text)
    feeds = {"x": rand(1, 4, 5, 5), "w": rand(4, 4, 3, 3)}
    assert [len(each.fused) for each in claims(model)] == [1]
    np.testing.assert_allclose(session(model).run(None, feeds)[0], plain(model, feeds)[0], atol=1e-5)


def test_an_empty_batch() -> None:
    model = unet()
    x = np.zeros((0, 8, 5, 5), np.float32)
    assert session(model).run(None, {"x": x})[0].shape == plain(model, {"x": x})[0].shape


def test_every_optimization_level() -> None:
    model, feeds = unet(), {"x": rand(1, 8, 5, 5)}
    (right,) = plain(model, feeds)
    for level in onnxruntime.GraphOptimizationLevel.__members__.values():
        made = options()
        made.graph_optimization_level = level
        np.testing.assert_allclose(session(model, made).run(None, feeds)[0], right, atol=1e-5)


def test_sizes_that_onnx_runtime_states_wrongly() -> None:
    """Its shape inference adds output_padding to the size of SAME, which its kernel does not."""
    text = """g (float[1,4,5,5] x) => (float[a,b,c,d] y, float[e,f,g_,h] z) {
        s = ConvTranspose <strides = [2, 2], auto_pad = "SAME_UPPER", output_padding = [1, 1]> (x, w)
        t = ConvTranspose <strides = [2, 2]> (s, w)
        y = Slice (t, starts, ends, axes)
        u = ConvTranspose (s, v)
        z = Slice (u, starts, last, axes)
    }"""
    tensors = {"w": rand(4, 4, 3, 3), "v": rand(4, 4, 1, 1), "starts": [0, -3], "ends": [18, 100], "axes": [2, 3]}
    model = parsed(text, **tensors, last=[-1, 1 << 40])
    feeds = {"x": rand(1, 4, 5, 5)}
    for got, right in zip(session(model).run(None, feeds), plain(model, feeds), strict=True):
        assert got.shape == right.shape
        np.testing.assert_allclose(got, right, atol=1e-4)
