"""ONNX files that were made to do harm: one error, from whatever reads them, and nothing is followed or written."""

from __future__ import annotations

import os
import pathlib
import tracemalloc
from collections.abc import Callable

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest

import ortconv
from ortconv.errors import CheckError
from ortconv.model_io import loading
from ortconv.optimizer import optimization, optimize
from ortconv.runtime.library import Backend
from ortconv.runtime.session import InferenceSession
from tests.command_line import run_cli

UP = """<ir_version: 10, opset_import: ["": 21]>
g (float[1,2,3] x) => (float[1,3,6] y) { y = ConvTranspose <strides = [2]> (x, w) }"""

WEIGHTS = np.arange(2 * 3 * 2, dtype=np.float32).reshape(2, 3, 2)


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_bytes(WEIGHTS.tobytes())
    monkeypatch.chdir(tmp_path)


def up() -> onnx.ModelProto:
    """A model with weights."""
    model = onnx.parser.parse_model(UP)
    model.graph.node[0].ClearField("domain")
    model.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHTS, "w"))
    return model


def parsed(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21, "own": 1, "org.ortconv": 1]>\n{text}')
    for node in (*model.graph.node, *(node for function in model.functions for node in function.node)):
        if not node.domain:
            node.ClearField("domain")
    return model


def refer(model: onnx.ModelProto, location: str, **more: str) -> None:
    """Has the weights of a model lie in another file."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), *more.items()):
        tensor.external_data.add(key=key, value=value)


def refused(model: onnx.ModelProto, problem: str) -> None:
    """Asserts that everything that takes a model refuses this one."""
    path = pathlib.Path("model/m.onnx")
    path.write_bytes(model.SerializeToString())
    ways: list[Callable[[], object]] = [
        lambda: ortconv.check(path),
        lambda: optimize(path),
        *(lambda backend=backend: InferenceSession(path, backend=backend) for backend in ("native", "python", "none")),
    ]
    for way in ways:
        with pytest.raises(CheckError) as caught:
            way()
        assert caught.value.path == "model/m.onnx"
        assert problem in caught.value.problem
    before = sorted(pathlib.Path().rglob("*"))
    for command in (("check", path), ("optimize", path, "-o", "out.onnx"), ("run", path), ("bench", path)):
        result = run_cli(*command)
        assert result.exit_code == 1, command
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: model/m.onnx: ")
        assert problem.encode("unicode_escape").decode() in line
        assert not result.stdout
    assert sorted(pathlib.Path().rglob("*")) == before


def link(target: str, at: str) -> str:
    (pathlib.Path("model") / at).symlink_to(target)
    return at


def hard_link() -> str:
    os.link("secret", "model/hard")
    return "hard"


def folder_link() -> str:
    pathlib.Path("model/real").mkdir()
    pathlib.Path("model/real/w").write_bytes(WEIGHTS.tobytes())
    return link("real", "linked") + "/w"


def fifo() -> str:
    os.mkfifo("model/fifo")
    return "fifo"


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        (lambda: "../secret", "is no relative path that stays"),
        (lambda: "a/../../secret", "is no relative path that stays"),
        (lambda: os.path.abspath("secret"), "is no relative path that stays"),
        (lambda: "/etc/passwd", "is no relative path that stays"),
        (lambda: "", "is no relative path that stays"),
        (lambda: "secret\0", "is no relative path that stays"),
        (lambda: ".", "is no relative path that stays"),
        (lambda: link("../secret", "soft"), "is a symbolic link"),
        (lambda: link("m.onnx", "near"), "is a symbolic link"),
        (folder_link, "is a symbolic link"),
        (hard_link, "has several hard links"),
        (fifo, "is not a regular file"),
        (lambda: "none.bin", "No such file or directory"),
        (lambda: "m.onnx/w", "Not a directory"),
        (lambda: "*/_ORT_MEM_ADDR_/*", "No such file or directory"),
    ],
)
def test_weights_lie_in_the_models_folder(location: Callable[[], str], problem: str) -> None:
    model = up()
    refer(model, location())
    refused(model, problem)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"offset": str(1 << 62)}, "are the bytes 4611686018427387904 to"),
        ({"offset": "1"}, "are the bytes 1 to 49 of 'w.bin'; allowed: up to 48"),
        ({"offset": "-1"}, "external offset '-1'"),
        ({"offset": "0x10"}, "external offset '0x10'"),
        ({"offset": "٣"}, "external offset"),
        ({"offset": "1" * 5000}, "external offset"),
        ({"length": ""}, "external length ''"),
        ({"length": "47"}, "external length 47; allowed: 48, as its shape [2, 3, 2] and type FLOAT say"),
        ({"length": str(1 << 63)}, "external length 9223372036854775808; allowed: 48"),
    ],
)
def test_weights_have_the_bytes_that_they_ask_for(more: dict[str, str], problem: str) -> None:
    model = up()
    pathlib.Path("model/w.bin").write_bytes(WEIGHTS.tobytes())
    refer(model, "w.bin", **more)
    refused(model, problem)


def test_one_file_does_not_become_any_number_of_bytes() -> None:
    model = up()
    with open("model/w.bin", "wb") as file:
        file.truncate(16 << 20)
    refer(model, "w.bin", length="48")
    for number in range(16):
        tensor = model.graph.initializer.add(name=f"v{number}", data_type=1, dims=[4 << 20], data_location=1)
        tensor.external_data.add(key="location", value="./w.bin")
    refused(model, "its tensors refer to 268435504 bytes in files of 16777216")


@pytest.mark.parametrize("offset", [0, 8])
def test_weights_in_a_folder_below(offset: int) -> None:
    model = up()
    pathlib.Path("model/weights").mkdir()
    pathlib.Path("model/weights/w.bin").write_bytes(bytes(offset) + WEIGHTS.tobytes())
    refer(model, "weights/w.bin", **({"offset": str(offset), "length": "48"} if offset else {}))
    pathlib.Path("model/m.onnx").write_bytes(model.SerializeToString())
    result = run_cli("optimize", "model/m.onnx", "-o", "faster.onnx")
    assert result.exit_code == 0, result.stderr
    x = np.random.default_rng(0).standard_normal((1, 2, 3)).astype(np.float32)
    expected = InferenceSession(up(), backend="none").run(None, {"x": x})[0]
    for path in ("model/m.onnx", "faster.onnx"):
        for backend in ("native", "python", "none"):
            np.testing.assert_allclose(
                InferenceSession(path, backend=backend).run(None, {"x": x})[0], expected, rtol=1e-6
            )


def test_weights_of_a_branch_in_a_file() -> None:
    model = parsed(
        """g (float[1,2,3] x, bool b) => (float[1,3,6] y) { y = If (b) <
          then_branch = t () => (float[1,3,6] p) { p = ConvTranspose <strides = [2]> (x, w) },
          else_branch = e () => (float[1,3,6] q) { w2 = Constant <value = float {1}> () c = Identity (w2)
            q = ConvTranspose <strides = [2]> (x, w) } > }"""
    )
    for attribute in model.graph.node[0].attribute:
        attribute.g.initializer.append(up().graph.initializer[0])
        refer_to = attribute.g.initializer[0]
        refer_to.ClearField("raw_data")
        refer_to.data_location = onnx.TensorProto.EXTERNAL
        refer_to.external_data.add(key="location", value="w.bin")
    pathlib.Path("model/w.bin").write_bytes(WEIGHTS.tobytes())
    pathlib.Path("model/m.onnx").write_bytes(model.SerializeToString())
    onnx.save(optimize("model/m.onnx"), "faster.onnx")
    x = np.ones((1, 2, 3), np.float32)
    expected = InferenceSession(up(), backend="none").run(None, {"x": x})[0]
    for truth in (True, False):
        (y,) = InferenceSession("faster.onnx").run(None, {"x": x, "b": np.array(truth)})
        np.testing.assert_allclose(y, expected, rtol=1e-6)


def set_tensor(**fields: object) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[0]
        for name, value in fields.items():
            if value is None:
                tensor.ClearField(name)
            elif isinstance(value, list):
                tensor.ClearField(name)
                getattr(tensor, name).extend(value)
            else:
                setattr(tensor, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (set_tensor(dims=[2, 3, -2]), "has shape [2, 3, -2]; allowed: sizes of 0 and more"),
        (set_tensor(dims=[2, 3, 1 << 62]), "allowed: up to 2^62 bytes"),
        (set_tensor(dims=[0, (1 << 63) - 1, (1 << 63) - 1]), "allowed: up to 2^62 bytes"),
        (set_tensor(dims=[1] * 40), "has 40 axes"),
        (set_tensor(dims=[2, 3, 3]), "has 48 bytes of raw_data; allowed: 72"),
        (set_tensor(data_type=0), "has the element type 0"),
        (set_tensor(data_type=99), "has the element type 99"),
        (set_tensor(data_type=8), "allowed: string_data"),
        (set_tensor(data_type=22), "has 48 bytes of raw_data; allowed: 6"),
        (set_tensor(float_data=[1.0]), "has raw_data beside float_data"),
        (set_tensor(raw_data=b"", float_data=[1.0] * 12), "has raw_data beside float_data"),
        (set_tensor(raw_data=None, float_data=[1.0]), "has 1 entries of float_data; allowed: 12 of float_data"),
        (set_tensor(raw_data=None, int64_data=[1] * 12), "has 12 entries of int64_data; allowed: 12 of float_data"),
        (lambda model: model.graph.initializer[0].segment.SetInParent(), "is a segment"),
        (lambda model: model.graph.initializer[0].external_data.add(key="location"), "has external_data beside"),
        (lambda model: model.graph.node[0].attribute.add().CopyFrom(model.graph.node[0].attribute[0]), "of one name"),
        (lambda model: model.opset_import.add(domain="ai.onnx", version=20), "is imported 2 times"),
        (lambda model: setattr(model.graph.node[0].attribute[0], "ref_attr_name", "f"), "refers to one of a function"),
        (
            lambda model: model.graph.node[0].attribute.add(name="auto_pad", type=3, s=b"SAME\xdbUPPER"),
            "graph.node[0] has an attribute that is not UTF-8",
        ),
    ],
)
def test_malformed_models(change: Callable[[onnx.ModelProto], None], problem: str) -> None:
    model = up()
    change(model)
    refused(model, problem)


@pytest.mark.parametrize(
    ("place", "old"),
    [
        ("graph.node[0].op_type", b"ConvTranspose"),
        ("graph.node[0].attribute[0].name", b"strides"),
        ("graph.input[0].name", b"xxxx"),
        ("graph.doc_string", b"about"),
        ("graph.initializer[0]", b"weights"),
        ("metadata_props[0].value", b"maker"),
    ],
)
def test_texts_are_utf8(place: str, old: bytes) -> None:
    model = up()
    model.graph.doc_string = "about"
    model.metadata_props.add(key="k", value="maker")
    model.graph.node[0].input[:] = ["xxxx", "weights"]
    model.graph.input[0].name, model.graph.initializer[0].name = "xxxx", "weights"
    data = model.SerializeToString()
    position = data.rindex(old) if place.startswith("graph.in") else data.index(old)
    model = onnx.ModelProto.FromString(data[:position] + b"\xff" + data[position + 1 :])
    refused(model, f"{place} is not UTF-8")


@pytest.mark.parametrize("command", ["check", "optimize", "run", "bench"])
def test_a_model_that_is_no_regular_file(command: str) -> None:
    os.mkfifo("fifo.onnx")
    for path, problem in (("fifo.onnx", "is not a"), ("/dev/zero", "is not a"), ("model", "")):
        result = run_cli(command, path, *(("-o", "out.onnx") if command == "optimize" else ()))
        assert result.exit_code == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"error: {path}: ")
        assert problem in line
    assert not pathlib.Path("out.onnx").exists()


def test_a_file_beyond_what_protobuf_reads() -> None:
    with open("large.onnx", "wb") as file:
        file.truncate(1 << 40)  # a hole
    with pytest.raises(CheckError, match="has 1099511627776 bytes; allowed: 2147483647"):
        ortconv.check("large.onnx")


@pytest.mark.parametrize(
    ("functions", "problem"),
    [
        (
            '<opset_import: ["": 21], domain: "org.ortconv"> TransposedConvolution (X, W) => (Y) { Y = Neg (X) }',
            "function 'org.ortconv::TransposedConvolution' is not the body",
        ),
        (
            '<opset_import: ["": 21], domain: "ai.onnx"> Relu (x) => (y) { y = Neg (x) }',
            "function 'ai.onnx::Relu' takes the place of ONNX's operator",
        ),
        (
            '<opset_import: ["": 21, "own": 1], domain: "own"> f (x) => (y) { y = own.f (x) }',
            "function 'own::f' calls itself",
        ),
        (
            """<opset_import: ["": 21, "own": 1], domain: "own"> f (x) => (y) { y = own.h (x) }
            <opset_import: ["": 21, "own": 1], domain: "own"> h (x) => (y) { y = own.f (x) }""",
            "calls itself",
        ),
        (
            '<opset_import: ["": 21], domain: "own"> f (x) => (y) { y = Neg (x) }\n' * 2,
            "function 'own::f' is defined twice",
        ),
    ],
)
def test_functions_are_what_they_seem(functions: str, problem: str) -> None:
    refused(parsed(f"g (float[2] x) => (float[2] y) {{ y = Relu (x) }}\n{functions}"), problem)


@pytest.mark.parametrize("backend", ["native", "python", "none"])
def test_functions_of_our_domain_that_are_no_operators(backend: Backend) -> None:
    """As onnx.compose.add_prefix makes them of ours."""
    model = parsed(
        """g (float[1,2,3] x) => (float[1,3,6] y) { r = org.ortconv.Relu (x) y = ConvTranspose <strides = [2]> (r, w) }
        <opset_import: ["": 21], domain: "org.ortconv"> Relu (p) => (q) { q = Neg (p) }"""
    )
    model.graph.initializer.append(up().graph.initializer[0])
    onnx.save(model, "m.onnx")
    ortconv.check("m.onnx")
    x = np.ones((1, 2, 3), np.float32)
    (expected,) = InferenceSession(up(), backend="none").run(None, {"x": -x})
    for each in (model, optimize(model)):
        np.testing.assert_allclose(InferenceSession(each, backend=backend).run(None, {"x": x})[0], expected, rtol=1e-6)
    assert "TransposedConvolution" in {node.op_type for node in optimize(model).graph.node}


def chain(count: int, calls: int) -> onnx.ModelProto:
    """Functions each of which calls the one before, so many times."""
    texts = ['<opset_import: ["": 21], domain: "own"> f0 (x) => (y) { y = Neg (x) }']
    for number in range(1, count):
        nodes = [f"t{call + 1} = own.f{number - 1} (t{call})" for call in range(calls)]
        text = "\n".join(nodes).replace(f"t{calls} =", "y =").replace("(t0)", "(x)")
        texts.append(f'<opset_import: ["": 21, "own": 1], domain: "own"> f{number} (x) => (y) {{ {text} }}')
    body = f"g (float[2] x) => (float[2] y) {{ y = own.f{count - 1} (x) }}"
    return parsed("\n".join([body, *texts]))


def test_functions_that_expand_without_end() -> None:
    refused(chain(30, 2), "its functions expand to")
    refused(chain(200, 1), "nested deeper than 100")


def test_constants_that_calls_multiply() -> None:
    model = chain(18, 2)
    constant = onnx.helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.zeros(1 << 14)))
    model.functions[0].node.append(constant)
    tracemalloc.start()
    try:
        refused(model, "its functions expand to")
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_functions_that_share_others() -> None:
    model = chain(8, 3)
    path = pathlib.Path("model/m.onnx")
    onnx.save(model, path)
    ortconv.check(path)
    (y,) = InferenceSession(path).run(None, {"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(y, -np.ones(2, np.float32))


def ours(activation: bool) -> onnx.ModelProto:
    model = up()
    if activation:
        model.graph.node[0].output[0] = "c"
        model.graph.node.append(onnx.helper.make_node("Relu", ["c"], ["y"]))
    return optimize(model)


def test_bodies_of_ours_are_known_by_what_they_compute() -> None:
    model = ours(activation=False)
    (function,) = model.functions
    names: dict[str, str] = {}
    for number, node in enumerate(function.node):
        node.name, node.doc_string = f"node {number}", "anew"
        for listed in (node.input, node.output):
            listed[:] = [name and names.setdefault(name, f"v{len(names)}") for name in listed]
    function.input[:] = [names[name] for name in function.input]
    function.output[:] = [names[name] for name in function.output]
    InferenceSession(model)
    next(node for node in function.node if node.op_type == "Sub").op_type = "Add"
    with pytest.raises(CheckError, match="is not the body"):
        InferenceSession(model)


def test_a_body_knows_the_activation_of_its_nodes() -> None:
    model = ours(activation=True)
    plain = ours(activation=False).functions[0]
    InferenceSession(model)
    model.functions[0].CopyFrom(plain)
    refused(model, "is not the body")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('y = ConvTranspose <strides = "two"> (x, w)', "strides"),
        ("t = Transpose <perm = [0, 1]> (x) y = ConvTranspose (t, w)", "Transpose"),
        ("y = ConvTranspose (x, t) t = Relu (y)", "topological"),
        ("y = ConvTranspose (x, none)", "none"),
        ("y = ConvTranspose (x, w) y = ConvTranspose (x, w)", "y"),
        ("y = org.ortconv.Relu (x)", "Relu"),
    ],
)
def test_optimize_refuses_what_check_refuses(text: str, problem: str) -> None:
    model = parsed(f"g (float[1,2,3] x, float[2,3,2] w) => (float[1,3,N] y) {{ {text} }}")
    path = pathlib.Path("model/m.onnx")
    path.write_bytes(model.SerializeToString())
    for given in (path, model):
        with pytest.raises(CheckError, match=problem):
            optimize(given)
    with pytest.raises(CheckError, match=problem):
        ortconv.check(path)


@pytest.mark.parametrize(
    "text",
    [
        "t = MaxPool <kernel_shape = [5]> (x)",
        "t = Conv (x, filter)",
        "t = Pad (x, pads)",
    ],
)
def test_sizes_that_onnx_computes_as_negative_numbers(text: str) -> None:
    """ONNX's shape inference ends the process where a Slice meets one."""
    model = parsed(
        f"""g (float[1,2,3] x) => (float[1,2,N] y) <float[2,2,5] filter, int64[6] pads = {{0, 0, -4, 0, 0, 0}},
        int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] axis = {{2}}>
        {{ {text} y = Slice (t, zero, one, axis) }}"""
    )
    path = pathlib.Path("model/m.onnx")
    path.write_bytes(model.SerializeToString())
    for given in (path, model):
        with pytest.raises(CheckError, match="negative"):
            optimize(given)
    with pytest.raises(CheckError, match="negative"):
        ortconv.check(path)


def test_a_perm_that_onnx_cannot_check() -> None:
    """Where not even the rank is known."""
    model = parsed(
        """g (float[1,2,3] x, float[2,3,2] w, int64[N] s) => (float[1,3,L] y) {
        r = Reshape (x, s) t = Transpose <perm = [1, 0]> (r) y = ConvTranspose (t, w) }"""
    )
    (outcome,) = optimization(model).outcomes
    assert "no permutation of 3 axes" in " ".join((*outcome.kept, outcome.reason))


@pytest.mark.parametrize(
    "text",
    [
        "c = ConvTranspose (x, w) y = Pad (c, p)",
        "y = ConvTranspose <group = 4611686018427387904> (x, v)",
    ],
)
def test_numbers_beyond_64_bits_are_left_alone(text: str) -> None:
    model = parsed(
        f"""g (float[1,C,L] x, float[2,3,2] w, float[D,3,K] v) => (float[A,B,C] y)
        <int64[6] p = {{0, 0, 0, 0, 0, 5000000000000000000}}> {{ {text} }}"""
    )
    (outcome,) = optimization(model).outcomes
    assert outcome.reason


def test_models_in_memory_refer_to_the_current_folder() -> None:
    model = up()
    refer(model, "w.bin")
    for way in (optimize, InferenceSession, lambda each: InferenceSession(each.SerializeToString())):
        with pytest.raises(CheckError, match="No such file"):
            way(model)
    pathlib.Path("w.bin").write_bytes(WEIGHTS.tobytes())
    before = model.SerializeToString()
    (y,) = InferenceSession(optimize(model)).run(None, {"x": np.ones((1, 2, 3), np.float32)})
    assert y.shape == (1, 3, 6)
    assert model.SerializeToString() == before
    with pytest.raises(CheckError, match="stays in the model's folder"):
        loading.validate(onnx.load(io_of(model, "../w.bin"), load_external_data=False), "m", "model")


def io_of(model: onnx.ModelProto, location: str) -> pathlib.Path:
    model.graph.initializer[0].external_data[0].value = location
    path = pathlib.Path("other.onnx")
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("equation", ["1e39", "a1->a", ".a->a", "a..->a", "a->b->c"])
def test_equations_on_which_shape_inference_never_ends_are_refused(tmp_path: pathlib.Path, equation: str) -> None:
    node = onnx.helper.make_node("Einsum", ["x"], ["y"], equation=equation, name="sum")
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy"]
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph([node], "g", values[:1], values[1:])), tmp_path / "net.onnx"
    )
    with pytest.raises(CheckError, match=r"node 'sum' \(Einsum\) has equation = .*; allowed: terms of letters"):
        ortconv.check(tmp_path / "net.onnx")
