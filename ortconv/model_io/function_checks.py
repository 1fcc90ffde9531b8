"""Checks a model's functions: those in our domain are our function bodies, and expansions are bounded."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable

import onnx
import onnx.defs
import onnx.numpy_helper

from ortconv.errors import CheckError, shown
from ortconv.model_io import protos
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME

__all__ = ["check_expansion", "check_own_functions", "needs_plugin"]

_MAX_NODES = 1 << 18
"""The largest number of nodes of a model whose functions are inlined."""

_MAX_BYTES = 1 << 30
"""The largest number of bytes of these nodes."""

_MAX_DEPTH = 100
"""The largest depth of nested calls and subgraphs; readers of models are recursive."""

_Id = tuple[str, str, str]


def needs_plugin(model: onnx.ModelProto) -> bool:
    """Returns whether a model holds nodes of ours without function bodies, as files written by other tools may."""
    bodies = {(function.domain, function.name) for function in model.functions}
    return any(node.domain == DOMAIN and (node.domain, node.op_type) not in bodies for node in protos.all_nodes(model))


def check_expansion(model: onnx.ModelProto, name: str) -> None:
    """Checks the size of a model with inlined functions, before anything inlines them.

    Raises:
        CheckError: Two functions have one name, they are recursive, or they expand to too many nodes.
    """
    functions: dict[_Id, onnx.FunctionProto] = {}
    for function in model.functions:
        if functions.setdefault(_id(function), function) is not function:
            raise CheckError(name, f"function {_shown(function)} is defined twice; allowed: once.")
    if functions:
        _Expansion(functions, name).check(model.graph.node)


def check_own_functions(model: onnx.ModelProto, name: str) -> None:
    """Checks that no function replaces an operator of ONNX, or one of ours by another body than ours.

    Raises:
        CheckError: One does, or a node of our domain is neither an operator of ours nor a function call.
    """
    users = [node for node in protos.all_nodes(model) if node.domain == DOMAIN]
    known = BY_NAME.keys() | {function.name for function in model.functions if function.domain == DOMAIN}
    unknown = next((node for node in users if node.op_type not in known), None)
    if unknown is not None:
        raise CheckError(
            name,
            f"node {_named(unknown)} is {shown(f'{DOMAIN}::{unknown.op_type}')}; allowed: "
            f"{', '.join(sorted(BY_NAME))}.",
        )
    for node in protos.nodes(model.graph.node):
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise CheckError(
                    name,
                    f"node {_named(node)}: attribute {shown(attribute.name)} refers to one of a function; allowed: "
                    "that inside functions.",
                )
    for function in model.functions:
        if not _domain(function.domain) and onnx.defs.has(function.name):
            raise CheckError(
                name, f"function {_shown(function)} takes the place of ONNX's operator; allowed: other names."
            )
        # Functions of other names are ordinary ones: onnx.compose renames functions.
        if function.domain == DOMAIN and function.name in BY_NAME and not _is_body(function, users):
            raise CheckError(
                name,
                f"function {_shown(function)} is not the body that ortconv writes for that operator; allowed: that "
                "body, or none. Convert or optimize the model again.",
            )


class _Expansion:
    """Computes the size of inlined functions, once for each.

    Args:
        functions: The functions by domain, name and overload.
        name: The model's name in messages.
    """

    def __init__(self, functions: dict[_Id, onnx.FunctionProto], name: str) -> None:
        self._functions = functions
        self._name = name
        self._known: dict[_Id, tuple[int, int, int]] = {}
        self._open: list[_Id] = []

    def check(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Checks the nodes of a graph, and each function whether it is called or not."""
        self._sum(nodes, 0)
        for each in self._functions:
            self._of(each)

    def _of(self, called: _Id) -> tuple[int, int, int]:
        """Returns the nodes, bytes and depth of a function with all functions that it calls."""
        if called in self._known:
            return self._known[called]
        function = self._functions[called]
        if called in self._open:
            raise CheckError(self._name, f"function {_shown(function)} calls itself; allowed: calls without a circle.")
        if len(self._open) >= _MAX_DEPTH:
            raise self._too_deep()
        self._open.append(called)
        count, size, depth = self._sum(function.node, 1)
        self._open.pop()
        self._known[called] = found = count, size + function.ByteSize(), depth
        return found

    def _sum(self, nodes: Iterable[onnx.NodeProto], depth: int) -> tuple[int, int, int]:
        count = size = 0
        deepest = depth
        for node in nodes:
            count += 1
            parts = [self._sum(graph.node, depth + 1) for graph in protos.subgraphs(node)]
            called = _domain(node.domain), node.op_type, node.overload
            if called in self._functions:
                inner = self._of(called)
                parts.append((*inner[:2], inner[2] + depth))
            for each in parts:
                count, size, deepest = count + each[0], size + each[1], max(deepest, each[2])
        if count > _MAX_NODES or size > _MAX_BYTES:
            raise CheckError(
                self._name,
                f"its functions expand to {count} nodes, or more, of {size} bytes; allowed: {_MAX_NODES} nodes of "
                f"{_MAX_BYTES} bytes.",
            )
        if deepest > _MAX_DEPTH:
            raise self._too_deep()
        return count, size, deepest

    def _too_deep(self) -> CheckError:
        return CheckError(
            self._name, f"its functions and bodies are nested deeper than {_MAX_DEPTH}; allowed: up to that."
        )


def _is_body(function: onnx.FunctionProto, ours: Iterable[onnx.NodeProto]) -> bool:
    """Returns whether a function is a body of ours, with every optional attribute that its nodes have."""
    if function.overload:
        return False
    opset = next((each.version for each in function.opset_import if not _domain(each.domain)), 0)
    optional = {each.name for each in BY_NAME[function.name].attributes if not each.required}
    needed = {each.name for node in ours if node.op_type == function.name for each in node.attribute} & optional
    found = _meaning(function)
    return any(needed <= set(each.attribute) and found == _meaning(each) for each in _bodies(function.name, opset))


@functools.cache
def _bodies(op_type: str, opset: int) -> tuple[onnx.FunctionProto, ...]:
    return tuple(BY_NAME[op_type].bodies(opset))


def _meaning(function: onnx.FunctionProto) -> object:
    """Returns a function without the names of values and nodes and without documentation, for comparison."""
    numbers: dict[str, int] = {}
    formal = _numbered(function.input, numbers)
    nodes = _steps(function.node, numbers)
    used = {_domain(node.domain) for node in protos.nodes(function.node)}
    imports = {(_domain(each.domain), each.version) for each in function.opset_import}
    return (
        formal,
        _numbered(function.output, numbers),
        tuple(sorted(function.attribute)),
        len(function.attribute_proto),
        frozenset(each for each in imports if each[0] in used),
        nodes,
    )


def _numbered(names: Iterable[str], numbers: dict[str, int]) -> tuple[int, ...]:
    """Returns the numbers of values; a new name gets the next number."""
    return tuple(numbers.setdefault(each, len(numbers)) if each else -1 for each in names)


def _steps(nodes: Iterable[onnx.NodeProto], numbers: dict[str, int]) -> tuple[object, ...]:
    return tuple(
        (
            _domain(node.domain),
            node.op_type,
            node.overload,
            _numbered(node.input, numbers),
            tuple(_setting(each, numbers) for each in sorted(node.attribute, key=lambda each: each.name)),
            _numbered(node.output, numbers),
        )
        for node in nodes
    )


def _setting(attribute: onnx.AttributeProto, numbers: dict[str, int]) -> object:
    """Returns an attribute for comparison; a subgraph shares the numbers of values around it, whose names differ."""
    bare = copy.deepcopy(attribute)
    bare.ClearField("doc_string")
    bare.ClearField("g")
    if bare.HasField("t"):
        bare.t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(attribute.t)))
    return bare.SerializeToString(deterministic=True), attribute.HasField("g") and _branch(attribute.g, numbers)


def _branch(graph: onnx.GraphProto, numbers: dict[str, int]) -> object:
    """Returns a subgraph for comparison, without types and shapes, which follow from its inputs."""
    tensors = tuple(
        (tuple(tensor.dims), onnx.numpy_helper.to_array(tensor).tobytes(), tensor.data_type)
        for tensor in graph.initializer
    )
    return (
        _numbered((value.name for value in graph.input), numbers),
        _numbered((tensor.name for tensor in graph.initializer), numbers),
        tensors,
        len(graph.sparse_initializer),
        _steps(graph.node, numbers),
        _numbered((value.name for value in graph.output), numbers),
    )


def _named(node: onnx.NodeProto) -> str:
    return shown(node.name or next(iter(node.output), ""))


def _id(function: onnx.FunctionProto) -> _Id:
    return _domain(function.domain), function.name, function.overload


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _shown(function: onnx.FunctionProto) -> str:
    return shown(f"{function.domain or 'ai.onnx'}::{function.name}")
