"""Converting a source: pick the frontend, read, lower, attach function bodies, check, save."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

import numpy as np
import onnx
import onnx_ir as ir

from ortconv.converters import FRONTENDS
from ortconv.errors import (
    CheckError,
    ConversionErrors,
    ModelFormatError,
    NodeRef,
    SemanticsWarning,
    ShapeError,
    file_name,
)
from ortconv.frontend.declared_shapes import without_shapes
from ortconv.frontend.fixed_inputs import with_inputs
from ortconv.frontend.source_format import Frontend, Tensors
from ortconv.frontend.source_graph import SourceGraph
from ortconv.graph.builder import Step
from ortconv.graph.opset_version import lowest_opset
from ortconv.graph.symbolic_dimensions import name_unknown_dimensions
from ortconv.lowering import Lowered, lower
from ortconv.model_io import atomic_write, checker, writer
from ortconv.model_io.checker_errors import contradictions
from ortconv.opset import functions
from ortconv.options import Compute, Io, Options, Semantics, Target, Weights
from ortconv.progress import Progress, silent

__all__ = ["DEFAULT_OPSET", "OPSETS", "Conversion", "conversion", "convert", "detect"]

OPSETS = range(19, 26)
"""Versions of the ai.onnx opset that can be emitted: what every lowering and function body is valid for."""

DEFAULT_OPSET = 21
"""What a model is made for unless an opset is asked for: the newest without anything that an ONNX Runtime from 1.24 on
does not load. A model whose nodes are the same in an older one says that one."""

_BEFORE_DILATED_MEANS = 18
"""An older opset still, for models that have AveragePool: ONNX Runtime computes the one of newer opsets, which may be
dilated, up to seven times slower."""

_IR_VERSION = 10


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A converted source.

    Attributes:
        source: The source as messages name it.
        format: The frontend's name.
        options: What was asked for.
        model: The ONNX model, checked.
        steps: What became of each source node, in order.
        notes: What there is to say about the source as a whole.
        saturating: How many nodes multiply 8-bit integers in sums that saturate on x86-64 CPUs without VNNI, unless the
            session config entry ``session.x64quantprecision`` is "1"; with the native library registered it is.
    """

    source: str
    format: str
    options: Options
    model: ir.Model
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    saturating: int = 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each thing to know of a node: where specification and library differ, and what is ignored."""
        return tuple(f"{step.ref}: {text}" for step in self.steps for text in step.warnings)

    def to_proto(self) -> onnx.ModelProto:
        """Returns the model as a protobuf message."""
        return ir.to_proto(self.model)

    def save(self, path: str | os.PathLike[str], *, progress: Progress = silent) -> None:
        """Writes the model, whole or not at all; weights over 2 GiB go to ``<path>.data`` beside it.

        Args:
            path: The file to write; it is replaced if it exists, and a symbolic link to it is followed.
            progress: Told how many bytes of weights are written.

        Raises:
            OSError: The file cannot be written, or it is something else: a folder, a device.
        """
        with atomic_write.whole(path) as temporary:
            writer.write(self.model, temporary, progress)


def detect(source: object) -> Frontend:
    """Returns the frontend that reads a source.

    Raises:
        ModelFormatError: None does.
    """
    for frontend in FRONTENDS:
        if frontend.detect(source):
            return frontend
    if isinstance(source, onnx.ModelProto) or str(source).lower().endswith(".onnx"):
        name = source.graph.name if isinstance(source, onnx.ModelProto) else source
        raise ModelFormatError(
            str(name), "", "is ONNX already: `ortconv optimize` rewrites it, `ortconv check` checks it."
        )
    formats = ", ".join(frontend.title for frontend in FRONTENDS)
    raise ModelFormatError(str(source), "", f"is not a source that ortconv reads; allowed: {formats}.")


def conversion(
    source: object,
    *,
    semantics: Semantics = "spec",
    target: Target = "auto",
    opset: int | None = None,
    io: Io = "runtime",
    compute: Compute = "f32",
    weights: Weights = "source",
    tensors: Tensors | None = None,
    random_constants: int | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    names: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> Conversion:
    """Converts a source and returns the model together with what became of each node.

    Args: see `convert`; `progress` is told how far the conversion is.

    Returns:
        The conversion; differences between spec and library stand in its `warnings`.

    Raises: see `convert`.
    """
    if opset is not None and (not isinstance(opset, (int, np.integer)) or opset not in OPSETS):
        raise ValueError(f"opset {opset!r} is not supported; allowed: {OPSETS.start} to {OPSETS.stop - 1}")
    seed = 0 if random_constants is None else random_constants
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"random_constants {random_constants!r} is not a seed; allowed: integers from 0")
    options = Options(semantics, target, DEFAULT_OPSET if opset is None else int(opset), io, compute, weights)
    frontend = detect(source)
    if tensors and not frontend.takes_tensors:
        raise ModelFormatError(
            str(source),
            "",
            f"data is given for {', '.join(tensors)}; allowed: none, since {frontend.title} holds its own.",
        )
    given: Tensors = tensors or {}
    if random_constants is not None and frontend.random_constants is not None:
        given = frontend.random_constants(source, random_constants, given)
    with _uncollected(), np.errstate(all="ignore"):  # constants may hold infinities and NaN, as results may
        progress("reading", 0, 0)
        graph = with_inputs(frontend.read(source, given, options), shapes or {}, names or {})

        def converted(graph: SourceGraph, infer_shapes: bool) -> Conversion:
            lowered = lower(graph, frontend.registry, options, progress, infer_shapes=infer_shapes)
            return _converted(graph, lowered, options, opset is None, progress)

        try:
            return converted(graph, bool(shapes))
        except ConversionErrors as refused:
            lenient = without_shapes(graph, refused) if frontend.registry.ignores_unknown else None
            if lenient is None:
                raise
            try:
                return converted(lenient, True)
            except (CheckError, ConversionErrors):
                raise refused from None


@functools.cache
def _version() -> str:
    """Returns the version of the installed package, whose metadata is read once."""
    return version("ortconv")


def _converted(graph: SourceGraph, lowered: Lowered, options: Options, lowest: bool, progress: Progress) -> Conversion:
    """Makes a model of a graph; `lowest` asks for the oldest opset that has the nodes."""
    if lowest:
        has_means = any(node.op_type == "AveragePool" for node in ir.traversal.RecursiveGraphIterator(lowered.graph))
        oldest = _BEFORE_DILATED_MEANS if has_means else OPSETS.start
        chosen = lowest_opset(lowered.graph, oldest, DEFAULT_OPSET)
        options = dataclasses.replace(options, opset=chosen)
        lowered.graph.opset_imports[""] = chosen
    model = ir.Model(lowered.graph, ir_version=_IR_VERSION, producer_name="ortconv", producer_version=_version())
    model.metadata_props.update(
        {
            "ortconv.source.format": graph.format,
            "ortconv.source.file": file_name(graph.path),
            "ortconv.semantics": options.semantics,
            "ortconv.io": options.io,
            "ortconv.compute": options.compute,
        }
    )
    model.metadata_props.update(graph.metadata)
    for step in lowered.steps:
        _explain(step)
    progress("checking", 0, 0)
    functions.attach(model)
    _complete_outputs(model, graph.path)
    name_unknown_dimensions(model)
    try:
        checker.check(model, graph.path)
    except CheckError as error:
        refused = contradictions(error.problem, graph.path, lowered.steps)
        if refused is None:
            raise
        raise refused from error
    return Conversion(graph.path, graph.format, options, model, lowered.steps, graph.notes, lowered.saturating)


def _explain(step: Step) -> None:
    """Writes why a source node became what it did into the metadata of its ONNX nodes, for viewers such as Netron."""
    for key, texts in (("ortconv.why", step.notes), ("ortconv.warning", step.warnings)):
        for node in step.nodes if texts else ():
            node.metadata_props[key] = "; ".join(texts)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keeps Python from looking for garbage again and again among the parts of a graph, which all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def convert(
    source: object,
    *,
    semantics: Semantics = "spec",
    target: Target = "auto",
    opset: int | None = None,
    io: Io = "runtime",
    compute: Compute = "f32",
    weights: Weights = "source",
    tensors: Mapping[str, np.ndarray] | None = None,
    random_constants: int | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    names: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
    """Converts an OpenVINO IR or a oneDNN graph to ONNX.

    Args:
        source: Path of an OpenVINO IR (``.xml``, its ``.bin`` beside it) or of a oneDNN Graph JSON file; or an
            ``openvino.Model``; or an `ortconv.onednn.Graph`.
        semantics: "spec" follows the source's specification, "runtime" reproduces the numbers of the source's own
            library where the two differ on the convolution family. All other OpenVINO ops follow the library under
            both.
        target: "auto" emits standard ONNX nodes where they are exact and ONNX Runtime's CPU provider runs them, and
            nodes of the domain ``org.ortconv`` with function bodies otherwise, and for products by weights of 8 and 4
            bits, which ONNX Runtime would dequantize in every run; "onnx" emits standard nodes only; "plugin" emits
            our nodes wherever they apply.
        opset: Version of the ai.onnx opset to emit, 19 to 25; by default the oldest from 19 to 21 that has the
            nodes, or 18 where AveragePool is one of them.
        io: Types of an OpenVINO model's inputs and outputs. "runtime" has those of OpenVINO, which takes and returns
            float32 where a file of version 10 states float16; "source" has what the file states.
        compute: What an OpenVINO model computes in where it states float16: "f32", as OpenVINO's CPU plugin does, or
            "f16", for GPUs.
        weights: "source" stores float16 weights as they are where they are computed with in float32, behind a Cast
            that ONNX Runtime folds when it loads the model; "f32" widens them in the file.
        tensors: Data for tensors that the source names but does not hold (oneDNN constants), by id or name.
        random_constants: Seed of random data for the constants that `tensors` lacks; by default they are inputs.
        shapes: Sizes to fix, a shape for each input by name; None stands for a size that stays dynamic.
        names: New names for inputs, by name.

    Returns:
        The model; it has passed ``onnx.checker`` with ``full_check``.

    Raises:
        ModelFormatError: The source cannot be read.
        ConversionErrors: Nodes were refused; one error each.
        InputError: `shapes` or `names` do not fit.
        CheckError: The result fails the checker, which is a bug of ours.
        ValueError: `opset` is not supported, a word is unknown, or `random_constants` is no seed.

    Warns:
        SemanticsWarning: For a node, specification and library give different results, or a part of it is ignored.
    """
    result = conversion(
        source,
        semantics=semantics,
        target=target,
        opset=opset,
        io=io,
        compute=compute,
        weights=weights,
        tensors=tensors,
        random_constants=random_constants,
        shapes=shapes,
        names=names,
    )
    for text in result.warnings:
        warnings.warn(text, SemanticsWarning, stacklevel=2)
    return result.to_proto()


def _complete_outputs(model: ir.Model, path: str) -> None:
    """Infers the shape of an output where the source leaves even the rank open, which ONNX does not allow.

    Raises:
        ConversionErrors: The rank is known at run time only, or that of an input is.
    """
    open_inputs = [
        ShapeError(
            f"input {value.name}",
            None,
            "the rank is known at run time only; ONNX inputs have a fixed rank.",
            hint="OpenVINO's Model.reshape can give it one.",
        )
        for value in model.graph.inputs
        if value.shape is None
    ]
    if open_inputs:
        raise ConversionErrors(f"{path}: {len(open_inputs)} inputs refused", open_inputs)
    if all(value.shape is not None for value in model.graph.outputs):
        return
    checker.infer_shapes(model)
    errors = [
        ShapeError(
            str(value.name), None, "the rank is known at run time only; ONNX outputs have a fixed rank.", node=ref
        )
        for value in model.graph.outputs
        if value.shape is None and (ref := _origin(value, path)) is not None
    ]
    if errors:
        raise ConversionErrors(f"{path}: {len(errors)} outputs refused", errors)


def _origin(value: ir.Value, path: str) -> NodeRef | None:
    """Returns the source node that computes a value, from the metadata of its ONNX node; `path` is the source's."""
    node = value.producer()
    if node is None:
        return None
    facts = [node.metadata_props.get(f"ortconv.source.{name}", "") for name in ("op_type", "name", "id", "version")]
    return NodeRef(path, *facts)
