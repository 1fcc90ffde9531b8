"""Running a source and its model on the same data."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import get_args

import numpy as np
import onnx

from ortconv import api
from ortconv.errors import ConversionErrors, ExecutionError, PluginError
from ortconv.frontend.fixed_inputs import RENAMED_KEY
from ortconv.frontend.source_format import Tensors
from ortconv.frontend.source_graph import SourceGraph
from ortconv.model_io import checker, loading, protos
from ortconv.model_io.input_data import Array, Input, is_float
from ortconv.opset.domain import DOMAIN
from ortconv.options import Io, Options, Semantics, Target, refuse_unknown
from ortconv.progress import Progress, silent
from ortconv.runtime.library import Backend
from ortconv.runtime.runner import Model
from ortconv.runtime.saturation import saturate
from ortconv.verification import feeding, spread
from ortconv.verification.compare import Comparison, Tolerance, compare, default_tolerance
from ortconv.verification.layers import Layer, Layers, compare_layers
from ortconv.verification.onednn import OneDnnReference
from ortconv.verification.openvino import OpenVinoRuntime
from ortconv.verification.oracle import Oracle, Results

__all__ = ["Analysis", "Verification", "declared_inputs", "verify"]

_SEMANTICS_KEY = "ortconv.semantics"
_QUANTIZERS = {"FakeQuantize", "FakeConvert"}
_OF_BYTES = {"MatMulInteger", "QLinearConv", "QLinearMatMul", "QuantizeLinear"}
"""Ops of models in which ONNX Runtime multiplies 8-bit integers."""


@dataclasses.dataclass(frozen=True)
class Analysis:
    """Why outputs differ: by rounding alone, or by a layer that computes something else; or what is behind empty ones.

    Cancellation, sorting and quantization magnify rounding errors, so that outputs of a correct model may differ. Its
    layers, each on the inputs that it has in the source, do not.

    Attributes:
        oracle: What computed the expected results: of a quantized OpenVINO model OpenVINO without its int8 kernels.
        outputs: For each backend, a comparison for each output, with those results. Its `spread` is how far they move
            when the inputs are rounded otherwise, if its layers agree.
        layers: For each backend whose outputs still differ, or say nothing, its layers.
    """

    oracle: str
    outputs: Mapping[Backend, tuple[Comparison, ...]]
    layers: Mapping[Backend, Layers]

    @property
    def agrees(self) -> bool:
        """Whether for each backend every output agrees, or else every layer."""
        return all(layers.agree for layers in self.layers.values())


@dataclasses.dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        source: The source as messages name it.
        model: The model's file, or "" if `verify` converted the source.
        oracle: What computed the expected results.
        semantics: The semantics that the model follows.
        seed: Of the random data.
        feeds: The data, by input name.
        given: Names of the inputs whose data was given.
        outputs: For each backend that ran, a comparison for each output.
        skipped: Backends that did not run, and why.
        first: Names of the states that hold what they hold in the source's first call.
        chosen: Shapes that were chosen for inputs with dynamic dimensions: 1 for batches, empty for caches without a
            first value, elsewhere the least that source and model accept.
        layers: The intermediate results in order of computation, if they were asked for. Each is computed from the
            source's own intermediate results; those of a quantised OpenVINO model without int8 kernels.
        analysis: Why outputs differ, if they do. A quantized OpenVINO model is compared without OpenVINO's int8 kernels
            there, and without ONNX Runtime's.
        warnings: Nodes for which the model follows the specification where the source's library, which is the oracle,
            computes something else: differences are expected there.
        vacuous: Whether the outputs agree and say nothing, as each is empty or the same for other data: the analysis
            decides.
        saturates: Whether products of 8-bit integers saturate on this CPU and the model has some: in OpenVINO, and in
            sessions of ONNX Runtime that do not set ``session.x64quantprecision``, which those that ran here did.
    """

    source: str
    model: str
    oracle: str
    semantics: Semantics
    seed: int
    feeds: Mapping[str, Array]
    given: frozenset[str]
    outputs: Mapping[Backend, tuple[Comparison, ...]]
    skipped: Mapping[Backend, str]
    first: frozenset[str] = frozenset()
    chosen: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    layers: tuple[Layer, ...] = ()
    analysis: Analysis | None = None
    warnings: tuple[str, ...] = ()
    vacuous: bool = False
    saturates: bool = False

    @property
    def agrees(self) -> bool:
        """Whether every output agrees, whatever ran the model, or differs by rounding alone.

        Where the outputs say nothing, whether every layer agrees.
        """
        return self.analysis is None or self.analysis.agrees

    @property
    def first_difference(self) -> Layer | None:
        """The first intermediate result that does not agree."""
        analysed = self.analysis.layers.values() if self.analysis else ()
        found = (*self.layers, *(layer for each in analysed for layer in each.layers))
        return next((layer for layer in found if not layer.comparison.agrees), None)


def verify(
    source: object,
    model: str | os.PathLike[str] | None = None,
    *,
    semantics: Semantics | None = None,
    target: Target = "auto",
    tensors: Tensors | None = None,
    data: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    backends: Sequence[Backend] = ("native", "none"),
    providers: Sequence[str] = ("CPUExecutionProvider",),
    layers: bool = False,
    progress: Progress = silent,
) -> Verification:
    """Compares a model in ONNX Runtime with its source.

    The expected results come from OpenVINO's CPU runtime, in float32, for an OpenVINO source, and from a float64
    reference for a oneDNN graph. A model whose outputs differ, or say nothing, is compared layer by layer.

    Args:
        source: As in `ortconv.convert`.
        model: The ONNX file; by default the source is converted.
        semantics: Of the conversion, or what the model was converted with. By default what the model says of itself;
            without a model "runtime" for OpenVINO, the only semantics of its runtime, and "spec" for oneDNN.
        target: Of the conversion.
        tensors: As in `ortconv.convert`.
        data: Data by input name; other inputs get random data.
        shapes: Shapes of random data by input name, for dynamic inputs; see `Verification.chosen` for others.
        seed: Of the random data.
        tolerance: Relative error up to which elements agree. By default integers must be equal, and floats as close as
            the types of the intermediate results allow. A tenth of it is what rounding may do to a number.
        backends: What runs our operators, one after the other: "native" is the native library, "python" the Python ops,
            "none" the function bodies. One that this installation or this model rules out is skipped, unless it is the
            only one. A model without operators of ours runs once, as "none".
        providers: ONNX Runtime's execution providers, best first.
        layers: Compare intermediate results, too.
        progress: Told what is being done.

    Returns:
        What was found; nothing is raised for a difference.

    Raises:
        OrtconvError: The source is not converted, the model is bad, the data does not fit, or something cannot run.
        ValueError: `semantics`, `target` or a backend is unknown, or there is no backend.
    """
    if not backends:
        raise ValueError(f"backends is empty; allowed: some of {', '.join(get_args(Backend))}")
    for backend in backends:
        refuse_unknown("backend", backend, get_args(Backend))
    frontend = api.detect(source)
    if model is None:
        graph = frontend.read(source, tensors or {})
        semantics = semantics or ("runtime" if graph.format == "openvino" else "spec")
        proto = api.conversion(
            source, semantics=semantics, target=target, tensors=tensors, progress=progress
        ).to_proto()
        name = graph.path
    else:
        proto = checker.check_file(model)
        loading.read_weights(proto, model)
        _restore_names(proto)
        graph = frontend.read(source, tensors or {}, _types_of(proto))
        semantics = semantics or _semantics_of(proto)
        name = os.fspath(model)
    Options(semantics, target)  # refuses what is unknown, whoever made the model
    is_ir = graph.format == "openvino"
    oracle: Oracle = OpenVinoRuntime(source, graph) if is_ir else OneDnnReference(graph, semantics)
    load = functools.partial(Model, name=name, providers=providers)
    run_once = _first_able(proto, name, backends, load)
    wanted = feeding.declared(graph, proto)
    progress("choosing data", 0, 0)
    prepared = feeding.prepare(wanted, oracle, data or {}, shapes or {}, seed, run_once)
    feeds = prepared.feeds
    allowed = (
        default_tolerance(graph, oracle.precision)
        if tolerance is None
        else Tolerance(tolerance, tolerance, tolerance / 10)
    )
    progress("running the model", 0, 0)
    ran, skipped = _run(proto, name, feeds, backends, load)
    progress("running the source", 0, 0)
    expected = oracle.run(feeds, everything=False)
    outputs = _compare_outputs(graph, ran, expected, allowed)
    exact = OpenVinoRuntime(source, graph, int8_kernels=False) if _is_quantized(graph) else oracle

    in_floats = functools.partial(load, int8_kernels=exact is oracle)

    @functools.cache
    def look_inside(backend: Backend) -> Layers:
        return compare_layers(
            graph, proto, feeds, exact, allowed, functools.partial(in_floats, backend=backend), progress
        )

    analysis = None
    vacuous = _say_nothing(outputs, oracle, feeds, expected)
    if vacuous or any(map(_differ, outputs.values())):
        again = outputs
        if exact is not oracle:
            floats, _ = _run(proto, name, feeds, tuple(ran), in_floats)
            expected = exact.run(feeds, everything=False)
            again = _compare_outputs(graph, floats, expected, allowed)
            vacuous = vacuous or _say_nothing(again, exact, feeds, expected)
        inside = {backend: look_inside(backend) for backend, found in again.items() if vacuous or _differ(found)}
        if any(map(_differ, again.values())) and all(layers.agree for layers in inside.values()):
            again = _with_spreads(again, exact, feeds, expected, allowed.unit)
        analysis = Analysis(exact.title, again, inside)
    return Verification(
        source=graph.path,
        model="" if model is None else name,
        oracle=oracle.title,
        semantics=semantics,
        seed=seed,
        feeds=feeds,
        given=frozenset(data or {}),
        first=prepared.first,
        chosen=prepared.chosen,
        outputs=outputs,
        skipped=skipped,
        layers=look_inside(_suspect(outputs)).layers if layers else (),
        analysis=analysis,
        warnings=_expected_differences(source, graph, semantics, tensors),
        vacuous=vacuous,
        saturates=any(node.op_type in _OF_BYTES for node in protos.nodes(proto.graph.node)) and saturate(),
    )


def declared_inputs(source: object, tensors: Tensors | None = None) -> tuple[Input, ...]:
    """Returns the inputs of a source, whose data `verify` takes."""
    return feeding.declared(api.detect(source).read(source, tensors or {}))


def _types_of(model: onnx.ModelProto) -> Options:
    """Returns options with the types that a model was converted to."""
    found = {entry.key: entry.value for entry in model.metadata_props}
    io: Io = "source" if found.get("ortconv.io") == "source" else "runtime"
    return Options(io=io, compute="f16" if found.get("ortconv.compute") == "f16" else "f32")


def _semantics_of(model: onnx.ModelProto) -> Semantics:
    found = {entry.key: entry.value for entry in model.metadata_props}.get(_SEMANTICS_KEY)
    return "runtime" if found == "runtime" else "spec"


def _first_able(
    proto: onnx.ModelProto, name: str, backends: Sequence[Backend], load: Callable[..., Model]
) -> Callable[[Mapping[str, Array]], Mapping[str, Array]]:
    """Returns a call that runs a model, which is loaded when it is first called, by the first backend that can."""

    @functools.cache
    def loaded() -> Model:
        for backend in backends[:-1] if _holds_ours(proto) else ():
            with contextlib.suppress(PluginError):
                return load(proto, backend=backend)
        return load(proto, backend=backends[-1] if _holds_ours(proto) else "none")

    def run(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        return loaded().run(_fed(loaded(), name, feeds))

    return run


def _holds_ours(proto: onnx.ModelProto) -> bool:
    return any(node.domain == DOMAIN for node in protos.nodes(proto.graph.node))


def _run(
    proto: onnx.ModelProto,
    name: str,
    feeds: Mapping[str, Array],
    backends: Sequence[Backend],
    load: Callable[..., Model],
) -> tuple[dict[Backend, dict[str, Array]], dict[Backend, str]]:
    """Runs a model by every backend that can run it."""
    if not _holds_ours(proto):
        backends = ("none",)
    ran: dict[Backend, dict[str, Array]] = {}
    skipped: dict[Backend, str] = {}
    for backend in backends:
        try:
            loaded = load(proto, backend=backend)
        except PluginError as error:
            if len(backends) == 1:
                raise
            skipped[backend] = error.problem
            continue
        ran[backend] = loaded.run(_fed(loaded, name, feeds))
    if not ran:
        raise ExecutionError(name, "ONNX Runtime", f"nothing can run the model: {'; '.join(skipped.values())}")
    return ran, skipped


def _fed(model: Model, name: str, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the data of a model's inputs, which are the source's."""
    wanted = {each.name for each in model.inputs}
    if wanted != feeds.keys():
        found, expected = (", ".join(sorted(names)) or "none" for names in (wanted, feeds.keys()))
        raise ExecutionError(name, "ONNX Runtime", f"the model has the inputs {found}; the source has {expected}.")
    return dict(feeds)


def _compare_outputs(
    graph: SourceGraph, ran: Mapping[Backend, Mapping[str, Array]], expected: Results, tolerance: Tolerance
) -> Mapping[Backend, tuple[Comparison, ...]]:
    return {
        backend: tuple(
            compare(output.name, results.get(output.name), array, tolerance.of(array))
            for output, array in zip(graph.outputs, expected.outputs, strict=True)
        )
        for backend, results in ran.items()
    }


def _with_spreads(
    outputs: Mapping[Backend, tuple[Comparison, ...]],
    oracle: Oracle,
    feeds: Mapping[str, Array],
    expected: Results,
    unit: float,
) -> Mapping[Backend, tuple[Comparison, ...]]:
    """Adds how far the expected outputs move when the inputs are rounded otherwise."""
    moved = oracle.run(spread.rounded(feeds, unit), everything=False).outputs
    spreads = [compare("", other, array, 0.0).max_rel for array, other in zip(expected.outputs, moved, strict=True)]
    return {
        backend: tuple(
            dataclasses.replace(comparison, spread=found) for comparison, found in zip(each, spreads, strict=True)
        )
        for backend, each in outputs.items()
    }


def _differ(comparisons: Iterable[Comparison]) -> bool:
    return not all(comparison.agrees for comparison in comparisons)


def _say_nothing(
    outputs: Mapping[Backend, tuple[Comparison, ...]], oracle: Oracle, feeds: Mapping[str, Array], expected: Results
) -> bool:
    """Tells whether outputs without an error are empty, or those of other data: they would hide most faults."""
    if any(comparison.max_abs for found in outputs.values() for comparison in found):
        return False
    if not any(array.size for array in expected.outputs):
        return True
    others = {name: _other(array) for name, array in feeds.items()}
    if all(map(_same, others.values(), feeds.values())):
        return False
    try:
        found = oracle.run(others, everything=False).outputs
    except ExecutionError:
        return False  # The source rules such data out.
    return all(map(_same, found, expected.outputs))


def _other(array: Array) -> Array:
    """Returns other data, of the size of those given: their elements the other way round, floats halved."""
    turned = np.ascontiguousarray(np.flip(array)).reshape(array.shape)
    if not is_float(array):
        return turned
    return np.asarray(turned * np.asarray(0.5, array.dtype), array.dtype)


def _same(array: Array, other: Array) -> bool:
    return array.shape == other.shape and array.tobytes() == other.tobytes()


def _is_quantized(graph: SourceGraph) -> bool:
    return graph.format == "openvino" and any(node.ref.op_type in _QUANTIZERS for node in graph.nodes)


def _suspect(outputs: Mapping[Backend, tuple[Comparison, ...]]) -> Backend:
    """Returns the backend whose intermediate results are worth a look: one that differs, if there is one."""
    differing = [backend for backend, found in outputs.items() if _differ(found)]
    return (differing or list(outputs))[0]


def _expected_differences(
    source: object, graph: SourceGraph, semantics: Semantics, tensors: Tensors | None
) -> tuple[str, ...]:
    if graph.format != "openvino" or semantics == "runtime":
        return ()
    try:
        steps = api.conversion(source, semantics=semantics, tensors=tensors).steps
    except ConversionErrors:
        return ()  # The model is not a conversion of ours.
    return tuple(f"{step.ref}: {text}" for step in steps for text in step.warnings if text not in step.followed)


def _restore_names(model: onnx.ModelProto) -> None:
    """Gives the inputs of a model that a conversion renamed the names that the source gives them."""
    names = {
        value.name: entry.value
        for value in model.graph.input
        for entry in value.metadata_props
        if entry.key == RENAMED_KEY
    }
    if not names:
        return
    for value in model.graph.input:
        value.name = names.get(value.name, value.name)
    for node in protos.nodes(model.graph.node):
        node.input[:] = [names.get(name, name) for name in node.input]
