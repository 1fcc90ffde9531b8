"""The driver: finds nodes that have a form of ours, applies the rules to each, replaces, checks, saves."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence

import onnx
import onnx_ir as ir

from ortconv.errors import CheckError, ModelFormatError
from ortconv.model_io import atomic_write, checker, loading, protos
from ortconv.opset import functions
from ortconv.opset.domain import DOMAIN, VERSION
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.optimizer import activation, affine, crop, integers, layout, pad, residual, spectral, spectral_nodes
from ortconv.optimizer.emission import Emitter
from ortconv.optimizer.neighbours import require_no_pad_with_axes
from ortconv.optimizer.opsets import OLDEST, upgraded
from ortconv.optimizer.outputs import for_checker, placeholders, with_ranks
from ortconv.optimizer.reading import read, require_numbers_that_fit
from ortconv.optimizer.site import Kept, Left, Outcome, Rule, Shapes, fold, name_of
from ortconv.optimizer.spectral_layers import is_looked_at
from ortconv.optimizer.values import Sizes, element_type

__all__ = ["Optimization", "optimization", "optimize"]

_FUNCTIONS_IR = 8
"""Files had no functions before this IR version."""

_EXTERNAL_DATA_BYTES = 1 << 31
"""A protobuf message stays under 2 GiB; above that the weights go to a file of their own."""

_RULES: tuple[Rule, ...] = (
    layout.fold_data,
    layout.fold_weights,
    layout.fold_result,
    pad.fold,
    crop.fold,
    affine.fold,
    residual.fold,
    activation.fold,
)


@dataclasses.dataclass(frozen=True)
class Optimization:
    """An optimized model.

    Attributes:
        source: The model as messages name it.
        model: The new model, checked.
        outcomes: What became of each ConvTranspose, STFT and DFT, and of each Conv whose filters are or resemble those
            of a Fourier transform, in order.
        reads: The files that the model consists of; `save` does not overwrite them.
    """

    source: str
    model: ir.Model
    outcomes: tuple[Outcome, ...]
    reads: frozenset[str]

    @property
    def rewritten(self) -> int:
        """How many of these nodes are ours now."""
        return sum(bool(outcome.becomes) for outcome in self.outcomes)

    def to_proto(self) -> onnx.ModelProto:
        """Returns the model as a protobuf message; it refers to external data where the original has it."""
        return ir.to_proto(self.model)

    def targets(self, path: str | os.PathLike[str]) -> tuple[str, ...]:
        """Returns the files that `save` writes: weights that were in a file of their own go to ``<path>.data``."""
        path = os.fspath(path)
        external = any(isinstance(tensor, ir.ExternalTensor) for tensor in _tensors(self.model))
        large = sum(tensor.nbytes for tensor in _tensors(self.model)) >= _EXTERNAL_DATA_BYTES
        return (path, f"{path}.data") if external or large else (path,)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model, whole or not at all.

        Args:
            path: The file to write; it is replaced if it exists.

        Raises:
            ValueError: A file that the model was read from would be overwritten.
            OSError: The file cannot be written.
        """
        targets = self.targets(path)
        for target in targets:
            if os.path.realpath(target) in self.reads:
                raise ValueError(f"{target} is a file of the model that is optimized; choose another output")
        with atomic_write.whole(path) as temporary:
            ir.save(self.model, temporary, external_data=f"{temporary.name}.data" if len(targets) > 1 else None)


def optimize(source: str | os.PathLike[str] | onnx.ModelProto) -> onnx.ModelProto:
    """Rewrites the ConvTranspose nodes of a model, and what around them folds in exactly, into nodes of ours.

    So are Fourier transforms: Conv and ConvTranspose with filters of such, and the ops STFT and DFT.

    The result computes what ONNX Runtime computes for the original, and runs without our library, too, by function
    bodies. Names, inputs, outputs, metadata and everything else stay as they are.

    Args:
        source: The model or its file. It is not changed.

    Returns:
        The new model; it refers to external data where the original has it. `optimization` returns a report as well.

    Raises:
        ModelFormatError: Our function bodies are not valid in the model's opset, or it holds what would be lost.
        CheckError: The file cannot be read, or `check` refuses it.
    """
    return optimization(source).to_proto()


def optimization(source: str | os.PathLike[str] | onnx.ModelProto) -> Optimization:
    """Optimizes a model and returns it together with what became of its nodes.

    Args: see `optimize`.

    Returns:
        The optimized model and its report.

    Raises: see `optimize`.
    """
    name, path, proto = _load(source)
    newer = upgraded(proto, name) if any(map(_is_conv_transpose, protos.nodes(proto.graph.node))) else proto
    model = _parsed(newer, name, path)
    found = [node for node in ir.traversal.RecursiveGraphIterator(model.graph) if _is_looked_at(node)]
    if (
        not any(map(_is_conv_transpose, found))
        and model.graph.opset_imports.get("") not in TRANSPOSED_CONVOLUTION.opsets
    ):
        found = []
    concealed = [
        node
        for function in model.functions.values()
        if function.domain != DOMAIN
        for node in ir.traversal.RecursiveGraphIterator(function)
        if _is_conv_transpose(node)
    ]
    hidden = [Outcome(name_of(node), "", reason="it stands in a function; onnx.inliner opens it") for node in concealed]
    misleading = next((outcome.name for node, outcome in zip(concealed, hidden, strict=True) if _misleads(node)), None)
    outcomes = _rewrite(model, name, found, misleading) if found else []
    if any(outcome.becomes for outcome in outcomes):
        _state_types(model, name)
        functions.attach(model)
        model.ir_version = max(model.ir_version, _FUNCTIONS_IR)
    elif newer is not proto:
        model = _parsed(proto, name, path)
    with placeholders(model):
        try:
            checker.check(model, name)
        except CheckError:
            _forget_shapes(model)
            checker.check(model, name)
    files = {str(tensor.path) for tensor in _tensors(model) if isinstance(tensor, ir.ExternalTensor)}
    reads = frozenset(map(os.path.realpath, {path, *files} if path else files))
    return Optimization(name, model, (*outcomes, *hidden), reads)


def _rewrite(model: ir.Model, name: str, found: Sequence[ir.Node], misleading: str | None) -> list[Outcome]:
    """Rewrites nodes, in order; `misleading` names one that stays and that misleads ONNX Runtime's shape inference.

    The function bodies compute with sizes, which ONNX Runtime takes from its shape inference where it can, right or
    wrong. So nothing is rewritten that may read the result of such a node.
    """
    opset = _require(model, name)
    sizes, emitter = Sizes(model.graph), Emitter(model, name)
    certain = misleading is None and not any(map(_misleads, filter(_is_conv_transpose, found)))
    reads_shapes = any(node.op_type in ("Add", "DFT", "STFT") or is_looked_at(node) for node in model.graph)
    rewriting = _Rewriting(sizes, residual.infer(model) if reads_shapes and certain else {}, opset, emitter)
    outcomes: dict[ir.Node, Outcome] = {}
    for node in found:
        if node in outcomes:
            continue
        try:
            if misleading is not None:
                raise Left(f"it may read from {misleading}, whose size ONNX Runtime's shape inference may get wrong")
            outcomes |= rewriting.rewrite(node)
        except Left as reason:
            outcomes[node] = Outcome(name_of(node), "", reason=str(reason), op_type=node.op_type)
            if misleading is None and _is_conv_transpose(node) and _misleads(node):
                misleading = name_of(node)
    emitter.finish(ir.traversal.RecursiveGraphIterator(model.graph), sizes)
    return [outcomes[node] for node in found if node in outcomes]


@dataclasses.dataclass(frozen=True)
class _Rewriting:
    """What the rewrites of a model need."""

    sizes: Sizes
    shapes: Shapes
    opset: int
    emitter: Emitter

    def rewrite(self, node: ir.Node) -> Mapping[ir.Node, Outcome]:
        """Rewrites a node, and returns what became of it and of others.

        Raises:
            Left: It stays.
        """
        match node.op_type:
            case "Conv":
                return spectral.forward(node, self.sizes, self.shapes, self.opset, self.emitter)
            case "STFT":
                return {node: spectral_nodes.stft(node, self.shapes, self.opset, self.emitter)}
            case "DFT":
                return {node: spectral_nodes.dft(node, self.shapes, self.opset, self.emitter)}
        site = read(node, self.sizes, self.opset)
        site.shapes = self.shapes
        reasons = []
        try:
            found = spectral.inverse(site, self.sizes, self.opset, self.emitter)
        except Kept as reason:
            reasons.append(str(reason))
        else:
            if found:
                return found
        folded, kept = fold(site, _RULES)
        require_no_pad_with_axes(site.x, site.output)
        require_numbers_that_fit(site)
        new = self.emitter.emit(site)
        self.sizes.record(new.outputs[0], site.size)
        op_type, name = new.op_type, name_of(node)
        try:
            integer = integers.rewrite(new, self.emitter)
        except Kept as reason:
            kept.append(str(reason))
        else:
            if integer is not None:
                op_type, more = integer
                folded += more
        return {node: Outcome(name, op_type, tuple(folded), (*reasons, *kept))}


def _state_types(model: ir.Model, name: str) -> None:
    """States the types of what our nodes read, by which their bodies are chosen."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        data = node.inputs[0] if node.domain == DOMAIN and node.inputs else None
        if data is not None and data.dtype is None:
            found = next((known for value in (*node.inputs, *node.outputs) if (known := element_type(value))), None)
            if found is None:
                raise ModelFormatError(
                    name,
                    f"node {name_of(node)}",
                    f"reads {data.name}, whose type is not stated; allowed: stated types.",
                )
            data.type = ir.TensorType(found)


def _require(model: ir.Model, name: str) -> int:
    """Returns the version of ai.onnx, if our nodes and their bodies can be added to the model."""
    imports = model.graph.opset_imports
    if "ai.onnx" in imports:  # the standard domain's other name
        imports.setdefault("", imports.pop("ai.onnx"))
    opsets = TRANSPOSED_CONVOLUTION.opsets
    if imports.get("") not in opsets:
        raise ModelFormatError(
            name,
            "opset_import",
            f"ai.onnx {imports.get('')} is not supported; allowed: {OLDEST} to {opsets.stop - 1}.",
        )
    if not any(node.domain == DOMAIN for node in model.graph.all_nodes()):
        imports.pop(DOMAIN, None)  # in a process that used the plugin, ONNX Runtime saves any model with version 1000
    if imports.get(DOMAIN, VERSION) != VERSION:
        raise ModelFormatError(
            name, "opset_import", f"{DOMAIN} {imports[DOMAIN]} is not supported; allowed: {VERSION}."
        )
    for function in model.functions.values():
        if function.domain != DOMAIN and any(node.domain == DOMAIN for node in function.all_nodes()):
            raise ModelFormatError(
                name, f"function {function.name}", f"holds nodes of {DOMAIN}; allowed: such nodes in graphs."
            )
    return imports[""]


def _load(source: str | os.PathLike[str] | onnx.ModelProto) -> tuple[str, str, onnx.ModelProto]:
    """Returns the model's name, its file, "" where it is none, and the model.

    Weights of the main graph that lie in files of their own stay there; what else does is read.
    """
    if isinstance(source, onnx.ModelProto):
        loading.validate(source, "the model", "")
        name, path, proto = source.graph.name or "model", "", source
    else:
        name = path = os.fspath(source)
        proto = loading.load(path)
    _refuse_lossy(proto, name)
    proto = protos.without_negative_dims(loading.with_inner_weights(proto, path))
    checker.require_inferable(proto, name)
    proto = with_ranks(proto)
    checker.check_proto(for_checker(proto), name)
    return name, path, proto


def _parsed(proto: onnx.ModelProto, name: str, path: str) -> ir.Model:
    try:
        model = ir.from_proto(proto)
    except Exception as error:  # onnx_ir's own classes
        raise CheckError(name, f"is not an ONNX model: {str(error) or type(error).__name__}") from error
    ir.external_data.set_base_dir(model.graph, os.path.dirname(path))
    return model


def _refuse_lossy(model: onnx.ModelProto, name: str) -> None:
    """Refuses what onnx_ir does not carry over, or new nodes could not."""
    nodes = list(protos.all_nodes(model))
    for graph in itertools.chain([model.graph], *map(protos.subgraphs, nodes)):
        if graph.sparse_initializer:
            raise ModelFormatError(name, f"graph {graph.name}", "has sparse initializers; allowed: dense ones.")
    if model.training_info:
        raise ModelFormatError(name, "training_info", "is present; allowed: models for inference.")
    if model.configuration or any(node.device_configurations for node in nodes):
        raise ModelFormatError(name, "configuration", "is present; allowed: models for one device.")
    for attribute in (each for node in nodes for each in node.attribute):
        if attribute.ref_attr_name and attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            raise ModelFormatError(
                name, f"attribute {attribute.name}", "refers to a body that a function is given; allowed: bodies."
            )


def _forget_shapes(model: ir.Model) -> None:
    """Drops the declared shapes of intermediate results: where shape inference was wrong, they contradict ours."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None


def _tensors(model: ir.Model) -> list[ir.TensorProtocol]:
    values = (value for graph in model.graphs() for value in graph.initializers.values())
    return [value.const_value for value in values if value.const_value is not None]


def _misleads(node: ir.Node) -> bool:
    """Whether ONNX's shape inference may say other sizes of a ConvTranspose than ONNX Runtime computes."""
    rule = node.attributes.get("auto_pad")
    fixed = rule is None or (not rule.is_ref() and rule.as_string() in ("NOTSET", "VALID"))
    return not fixed or "output_shape" in node.attributes


def _is_conv_transpose(node: ir.Node | onnx.NodeProto) -> bool:
    return node.op_type == "ConvTranspose" and not node.domain


def _is_looked_at(node: ir.Node) -> bool:
    return not node.domain and (node.op_type in ("ConvTranspose", "DFT", "STFT") or is_looked_at(node))
