"""Other tools read and rewrite every file that ortconv writes, and the numbers stay."""

from __future__ import annotations

import copy
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx.compose
import onnx.defs
import onnx.inliner
import onnx.shape_inference
import onnx.version_converter
import onnxruntime
import onnxsim
import onnxslim
import openvino
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from onnxruntime.quantization import quantize_dynamic
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference
from openvino.frontend import OpConversionFailure
from polygraphy.backend.onnx import fold_constants, infer_shapes

from ortconv.opset.domain import DOMAIN, VERSION
from ortconv.opset.ops import BY_NAME
from ortconv.opset.schemas import register_schemas
from ortconv.runtime.saturation import make_products_exact
from tests.processor import with_dot_products
from tests.running import run
from tests.tools.files import FILES, Feeds, File

pytestmark = pytest.mark.filterwarnings("ignore")

Tool = Callable[[onnx.ModelProto, pathlib.Path], onnx.ModelProto]


def between_files(tool: Callable[[str, str], object]) -> Tool:
    def through(model: onnx.ModelProto, folder: pathlib.Path) -> onnx.ModelProto:
        onnx.save(model, folder / "given.onnx")
        tool(str(folder / "given.onnx"), str(folder / "made.onnx"))
        return onnx.load(folder / "made.onnx")

    return through


def shapes_by_onnx(model: onnx.ModelProto, folder: pathlib.Path) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def inlined(model: onnx.ModelProto, folder: pathlib.Path) -> onnx.ModelProto:
    made = onnx.inliner.inline_local_functions(model)
    assert not made.functions
    assert DOMAIN not in {node.domain for node in made.graph.node}
    return made


def simplified(model: onnx.ModelProto, folder: pathlib.Path) -> onnx.ModelProto:
    made, is_right = onnxsim.simplify(model)
    assert is_right
    return made


def optimized_by_onnxruntime(given: str, made: str) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = made
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


REWRITING: Mapping[str, Tool] = {
    "onnx.shape_inference": shapes_by_onnx,
    "onnx.inliner": inlined,
    "symbolic_shape_infer": lambda model, folder: SymbolicShapeInference.infer_shapes(model, auto_merge=True),
    "quant_pre_process": between_files(lambda given, made: quant_pre_process(given, made, auto_merge=True)),
    "optimized_model_filepath": between_files(optimized_by_onnxruntime),
    "onnxsim": simplified,
    "onnxslim": lambda model, folder: onnxslim.slim(model),
    "polygraphy": lambda model, folder: fold_constants(infer_shapes(model)),
}
"""Tools whose results have the inputs and outputs of what they are given."""

_NO_AXES = (
    "ONNX Runtime 1.32.0's symbolic shape inference overlooks axes of reductions that are inputs, as since opset 18"
)
_RECURSION = "OnnxSlim 0.1.98 does not end where a model has functions and bodies"
KNOWN = {
    ("symbolic_shape_infer", "double, onnx"): (TypeError, _NO_AXES),
    ("quant_pre_process", "double, onnx"): (TypeError, _NO_AXES),
    ("onnxslim", "control flow, auto"): (RecursionError, _RECURSION),
    ("quantize_dynamic", "quantised, auto"): (ValueError, "ONNX Runtime 1.32.0 quantizes no quantised network"),
    ("quantize_dynamic", "quantised, onnx"): (ValueError, "ONNX Runtime 1.32.0 quantizes no quantised network"),
    **{
        ("add_prefix", f"control flow, {target}"): (
            onnx.checker.ValidationError,
            "onnx 1.23.2 does not rename constants of the graph around a body in it",
        )
        for target in ("auto", "onnx")
    },
}
"""Where a tool fails for a reason of its own."""


def cases(*tools: str) -> list[Any]:
    """Returns each tool with each file."""
    made = []
    for tool, file in itertools.product(tools, FILES):
        error, reason = KNOWN.get((tool, str(file)), (None, ""))
        marks = [] if error is None else [pytest.mark.xfail(strict=True, raises=error, reason=reason)]
        made.append(pytest.param(tool, file, id=f"{tool}-{file}", marks=marks))
    return made


@pytest.fixture(params=["known", "unknown"])
def operators(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets onnx know the schemas of our operators, as after ``import ortconv``, or not."""
    register_schemas()
    if request.param == "unknown":
        for name in BY_NAME:
            onnx.defs.deregister_schema(name, VERSION, DOMAIN)
    yield
    register_schemas()


def given(file: File) -> onnx.ModelProto:
    return copy.deepcopy(file.model)


def assert_same(found: list[np.ndarray], file: File, bound: float = 1e-5) -> None:
    for actual, expected in zip(found, file.results, strict=True):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(actual, expected, rtol=bound, atol=bound * float(np.abs(expected).max()))


def ran(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """Returns what an ONNX Runtime computes that does not know our operators."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    make_products_exact(options)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, dict(feeds))]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_files_give_the_numbers_of_their_sources(file: File) -> None:
    """Levels of quantised networks may be rounded to the neighbour."""
    bound = 5e-3 if file.network == "quantised" else 1e-5
    for actual, expected in zip(file.results, file.expected(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=bound, atol=bound * float(np.abs(expected).max()))


@pytest.mark.parametrize(("tool", "file"), cases(*REWRITING))
def test_tool_keeps_the_numbers(tool: str, file: File, operators: None, tmp_path: pathlib.Path) -> None:
    made = REWRITING[tool](given(file), tmp_path)
    assert_same(ran(made, file.feeds), file)


@pytest.mark.parametrize(("tool", "file"), cases("quantize_dynamic"))
def test_dynamic_quantization(tool: str, file: File, operators: None, tmp_path: pathlib.Path) -> None:
    """Data and weights are rounded to 8 bits, where they are multiplied by standard nodes."""
    made = between_files(lambda given, made: quantize_dynamic(given, made))(given(file), tmp_path)
    assert_same(ran(made, file.feeds), file, bound=0.1)


@pytest.mark.parametrize(("tool", "file"), cases("add_prefix"))
def test_models_are_merged(tool: str, file: File, operators: None) -> None:
    """Of two models each has a prefix."""
    prefixes = ("a_", "b_")
    first, second = (onnx.compose.add_prefix(given(file), prefix) for prefix in prefixes)
    feeds = {prefix + name: data for prefix in prefixes for name, data in file.feeds.items()}
    found = ran(onnx.compose.merge_models(first, second, io_map=[]), feeds)
    count = len(file.results)
    assert_same(found[:count], file)
    assert_same(found[count:], file)


def test_functions_that_keep_their_names_are_run_by_the_plugin() -> None:
    file = FILES[0]
    made = onnx.compose.add_prefix(given(file), "a_", rename_functions=False)
    assert_same(run(made, {f"a_{name}": data for name, data in file.feeds.items()}, "native"), file)


@pytest.mark.parametrize("file", [file for file in FILES if not file.has_ours], ids=str)
def test_version_converter(file: File) -> None:
    made = onnx.version_converter.convert_version(given(file), 22)
    assert_same(ran(made, file.feeds), file)


@pytest.mark.xfail(strict=True, raises=Fail, reason="onnx 1.23.2's version converter leaves functions out")
@pytest.mark.parametrize("file", [file for file in FILES if file.has_ours], ids=str)
def test_version_converter_of_functions(file: File) -> None:
    ran(onnx.version_converter.convert_version(given(file), 22), file.feeds)


def read_by_openvino(model: onnx.ModelProto, folder: pathlib.Path, feeds: Feeds) -> list[np.ndarray]:
    onnx.save(model, folder / "model.onnx")
    compiled = openvino.compile_model(
        openvino.convert_model(folder / "model.onnx"),
        "CPU",
        {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1},
    )
    return [np.array(each) for each in compiled(dict(feeds)).to_tuple()]


@pytest.mark.parametrize(
    "file",
    [pytest.param(each, marks=[with_dot_products] if each.network == "quantised" else []) for each in FILES],
    ids=str,
)
def test_openvino(file: File, tmp_path: pathlib.Path) -> None:
    """It reads no functions; ONNX's inliner puts them in their place."""
    model = given(file)
    found = read_by_openvino(inlined(model, tmp_path) if file.has_ours else model, tmp_path, file.feeds)
    assert_same(found, file, bound=5e-3 if file.network == "quantised" else 1e-5)


@pytest.mark.xfail(strict=True, raises=OpConversionFailure, reason="OpenVINO 2026.4.1 reads no functions of a model")
def test_openvino_of_functions(tmp_path: pathlib.Path) -> None:
    read_by_openvino(given(FILES[0]), tmp_path, FILES[0].feeds)
