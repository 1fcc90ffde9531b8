"""What an import costs, and that imports point one way."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

import ortconv
import ortconv.converters
from tests.folders import ROOT

PACKAGE = pathlib.Path(ortconv.__file__).parent
CONVERTERS = pathlib.Path(ortconv.converters.__file__).parent

RUNTIMES = {"onnxruntime", "onnxruntime_extensions", "openvino"}
HEAVY = RUNTIMES | {"click", "ml_dtypes", "numpy", "onnx", "onnx_ir", "rich"}

LAYERS = (
    {"convolution_arithmetic", "errors", "options", "progress"},
    {"frontend", "opset"},
    {"graph", "onednn"},
    {"model_io", "passes"},
    {"lowering", "runtime"},
    {"converters", "serving"},
    {"api", "optimizer"},
    {"verification"},
    {"benchmarking", "reporting"},
    {"cli"},
    {"__main__"},
)
"""Modules and packages of ortconv; each imports from the layers above it alone."""

CONVERSION = {"frontend", "opset", "graph", "model_io", "passes", "lowering", "converters", "api", "optimizer"}
"""What converts and optimizes, which imports nothing that executes models."""


def loaded_after(statement: str) -> set[str]:
    """Imports in a fresh interpreter; returns the top-level packages that are loaded then."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import ortconv", HEAVY),
        ("import ortconv; ortconv.PluginError; ortconv.__version__", HEAVY),
        ("import ortconv.cli", HEAVY - {"click", "rich"}),
        ("import ortconv; ortconv.convert; ortconv.onednn; ortconv.check; ortconv.optimize", RUNTIMES),
        ("import ortconv; ortconv.library_path; ortconv.register; ortconv.register_ep; ortconv.ep_name", RUNTIMES),
        (
            "import ortconv.verification, ortconv.cli.verify, ortconv.cli.run, ortconv.cli.bench, ortconv.cli.report",
            RUNTIMES,
        ),
    ],
)
def test_import_loads_no_more_than_it_must(statement: str, forbidden: set[str]) -> None:
    assert not loaded_after(statement) & forbidden


def test_public_names_resolve() -> None:
    for name in ortconv.__all__:
        assert getattr(ortconv, name) is not None
    assert set(dir(ortconv)) == set(ortconv.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ortconv.nothing  # type: ignore[attr-defined]


def test_type_checkers_see_the_public_names() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        alias.asname or alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen - {"_version"} == set(ortconv.__all__) - {"__version__"}


def modules() -> list[tuple[str, pathlib.Path]]:
    """Returns the dotted name, without "ortconv.", and the file of each module."""
    found = []
    for prefix, folder in (("", PACKAGE), ("converters.", CONVERTERS)):
        for path in sorted(folder.rglob("*.py")):
            if "native" not in path.parts and (folder is CONVERTERS or CONVERTERS not in path.parents):
                dotted = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
                found.append((prefix + dotted, path))
    assert len(found) > 50
    return [(name.removesuffix(".__init__"), path) for name, path in found if name != "__init__"]


def imported(path: pathlib.Path) -> set[str]:
    """Returns the modules of ours that a file imports, without "ortconv."."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "ortconv":
                names |= {alias.name for alias in node.names}
            elif node.module and node.module.startswith("ortconv."):
                names.add(node.module.removeprefix("ortconv."))
        elif isinstance(node, ast.Import):
            names |= {alias.name.removeprefix("ortconv.") for alias in node.names if alias.name.startswith("ortconv.")}
    return names


def listed(path: pathlib.Path) -> set[str]:
    """Returns the names in a file's __all__."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return set(ast.literal_eval(node.value))
    return set()


def layer(name: str) -> int:
    head = name.partition(".")[0]
    layers = [index for index, heads in enumerate(LAYERS) if head in heads]
    assert layers, f"ortconv.{head} has no place in LAYERS"
    return layers[0]


def test_imports_point_one_way() -> None:
    for name, path in modules():
        for other in imported(path):
            if other.partition(".")[0] != name.partition(".")[0]:
                assert layer(other) < layer(name), f"ortconv.{name} imports ortconv.{other}"


def test_what_a_module_imports_from_another_is_in_its_all() -> None:
    public = {f"ortconv.{name}": listed(path) for name, path in modules()}
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in public:
                names = {alias.name for alias in node.names if f"{node.module}.{alias.name}" not in public}
                assert names <= public[node.module], f"ortconv.{name} imports {names} of {node.module}"


def test_nothing_that_converts_imports_what_executes() -> None:
    for name, path in modules():
        if name.partition(".")[0] in CONVERSION:
            assert not {other.partition(".")[0] for other in imported(path)} & {"runtime", "benchmarking"}, name


OPENVINO = {
    "lib": {"ops", "parity", "patterns", "reader", "weights"},
    "weights": {"ops", "parity", "patterns", "reader"},
    "parity": {"ops", "patterns", "reader", "weights"},
    "patterns": {"ops", "parity", "reader"},
    "plugin_bugs": {"ops", "parity", "patterns"},
    "reader": {"ops", "parity", "patterns"},
    "ops": {"ops"},
}
"""What no module of a package of converters/openvino imports: lib <- weights, parity <- patterns <- ops."""


@pytest.mark.parametrize("package", OPENVINO)
def test_imports_of_the_openvino_converter_point_one_way(package: str) -> None:
    for name, path in modules():
        if name.startswith(f"converters.openvino.{package}."):
            for other in imported(path):
                part = other.removeprefix("converters.openvino.").partition(".")[0]
                assert part not in OPENVINO[package], f"ortconv.{name} imports ortconv.{other}"


def test_lowerings_do_not_compute_with_references() -> None:
    for name, path in modules():
        if name.startswith("converters."):
            assert not any(other.startswith(("onednn.call", "onednn.kinds")) for other in imported(path)), name
            assert "REFERENCES" not in path.read_text(encoding="utf-8"), name


def test_frontends_do_not_import_each_other() -> None:
    for name, path in modules():
        parts = name.split(".")
        if parts[0] == "converters" and len(parts) > 1 and parts[1] in ("openvino", "onednn_graph"):
            (other,) = {"openvino", "onednn_graph"} - {parts[1]}
            assert not any(entry.startswith(f"converters.{other}") for entry in imported(path)), name


def test_an_installation_exposes_ortconv_alone(tmp_path: pathlib.Path) -> None:
    code = "import sys, ortconv.converters; print(*sys.path, sep='\\n')"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not {str(ROOT), str(ROOT.parent)} & set(done.stdout.splitlines())


def test_a_conversion_loads_neither_sympy_nor_other_formats(tmp_path: pathlib.Path) -> None:
    """Both would take as long as the rest of the start."""
    code = """
import sys
from ortconv import cli
sys.argv = ["ortconv", "convert", *sys.argv[1:]]
try:
    cli.main()
except SystemExit as end:
    assert end.code == 0
print(sorted(name for name in sys.modules if name in ("sympy.core", "ortconv.onednn", "openvino", "onnxruntime")))
"""
    command = [sys.executable, "-c", code, ROOT / "samples/sources/unet_decoder.xml", "-o", tmp_path / "net.onnx"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
