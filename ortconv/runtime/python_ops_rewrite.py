"""Rewriting a model so that Python ops execute the nodes of ``org.ortconv``.

Each node becomes, in the domain ``org.ortconv.py``, a Python op that works in the node's accumulation type,

    X, W, B --Cast--> Python op --data, shape--> Reshape --CastLike--> Y

so that one Python op per accumulation type serves every element type. Converting the sums to Y's type is left to ONNX
Runtime's Cast, which rounds once, to nearest even, and keeps the low bits of integers. The Reshape is there because
onnxruntime-extensions ends the process when the output of a Python op does not fit a buffer that the caller has bound.
The residual of a TransposedConvolutionAdd, and an activation, are standard ops behind that.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import onnx
import onnx.helper
import onnx.inliner
from onnx import TensorProto

from ortconv.errors import PluginError, shown
from ortconv.model_io import protos
from ortconv.opset.operators import (
    ACCUMULATION,
    ACTIVATION,
    ACTIVATION_ATTRIBUTE,
    CONV_TRANSPOSE,
    DOMAIN,
    NO_ACTIVATION,
    OPS,
    Op,
)
from ortconv.opset.ops.compressed_product import BLOCK_SIZE, ELEMENTS, CompressedProduct
from ortconv.opset.ops.compressed_products import PRODUCTS
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.runtime.python_ops import CARRIERS, PYTHON_DOMAIN, Calls, op_type, product_type

__all__ = ["rewrite"]

_OLDEST_OPSET = 15  # CastLike
_OPS = {(DOMAIN, op.name): op for op in OPS}


def rewrite(model: onnx.ModelProto, calls: Calls) -> None:
    """Replaces the nodes of ``org.ortconv`` by Python ops, in subgraphs and model-local functions too.

    Names, types and shapes of inputs and outputs stay. Functions that hold such nodes are inlined, because the ops
    take their attributes as one string, which cannot refer to a function's attributes.

    Args:
        model: The model, which is changed.
        calls: Where failures go.

    Raises:
        PluginError: A node of ours contradicts its schema, or the model's opset is too old.
    """
    kept = [each for each in model.functions if not _is_operator(each.domain, each.name)]
    del model.functions[:]
    model.functions.extend(kept)
    while holders := [(f.domain, f.name) for f in model.functions if any(map(_is_ours, protos.nodes(f.node)))]:
        model.CopyFrom(onnx.inliner.inline_selected_functions(model, holders, exclude=False))
    if not any(map(_is_ours, protos.nodes(model.graph.node))):
        return
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < _OLDEST_OPSET:
        raise PluginError(
            f"the model imports opset {opset} of ai.onnx; allowed for Python ops: {_OLDEST_OPSET} or newer."
        )
    _rewrite_graph(model.graph, {}, calls)
    model.opset_import.append(onnx.helper.make_opsetid(PYTHON_DOMAIN, 1))


def _is_ours(node: onnx.NodeProto) -> bool:
    return _is_operator(node.domain, node.op_type)


def _is_operator(domain: str, name: str) -> bool:
    return (domain, name) in _OPS or (domain == DOMAIN and (name in PRODUCTS or name == CONV_INTEGER_TO_FLOAT.name))


def _rewrite_graph(graph: onnx.GraphProto, outer: dict[str, int], calls: Calls) -> None:
    """Rewrites a graph; `outer` holds the element types, where declared, of the values of the graphs around it."""
    types = outer | {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in itertools.chain(graph.input, graph.output, graph.value_info):
        types[value.name] = value.type.tensor_type.elem_type
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for subgraph in protos.subgraphs(node):
            _rewrite_graph(subgraph, types, calls)
        nodes.extend(_python_nodes(node, types, calls) if _is_ours(node) else [node])
    del graph.node[:]
    graph.node.extend(nodes)


def _python_nodes(node: onnx.NodeProto, types: dict[str, int], calls: Calls) -> list[onnx.NodeProto]:
    """Returns what replaces one node of ours."""
    if node.op_type in PRODUCTS:
        return _product_nodes(PRODUCTS[node.op_type], node, types, calls)
    if node.op_type == CONV_INTEGER_TO_FLOAT.name:
        return _integer_conv_nodes(node, types, calls)
    op = _OPS[node.domain, node.op_type]
    names = [*node.input, *[""] * (len(op.inputs) - len(node.input))]
    accumulation, activation, task = _task(node, op, names, types)
    carrier = CARRIERS[accumulation]
    prefix = f"{PYTHON_DOMAIN}/{node.output[0]}"
    make = onnx.helper.make_node
    result, inputs = [], []
    residual = ""
    for formal, name in zip(op.inputs, names, strict=True):
        if formal == "output_shape":
            inputs.append(name)
        elif formal == "R":
            residual = name
        elif name:
            inputs.append(f"{prefix}/{formal}")
            result.append(make("Cast", [name], inputs[-1:], to=carrier))
        else:
            inputs.append(f"{prefix}/{formal}")
            result.append(make("Constant", [], inputs[-1:], value=onnx.helper.make_tensor("", carrier, [0], [])))
    flat, sums = [f"{prefix}/data", f"{prefix}/shape"], f"{prefix}/sums"
    text = json.dumps(task | {"calls": calls.key})
    result += [
        make(op_type(len(inputs), carrier), inputs, flat, name=node.name, domain=PYTHON_DOMAIN, task=text),
        make("Reshape", flat, [sums], allowzero=1),
    ]
    if residual:
        sums = f"{prefix}/added"
        result += _added(f"{prefix}/sums", residual, names[0], carrier, sums)
    if activation is None:
        result.append(make("CastLike", [sums, names[0]], list(node.output)))
    else:
        slope, minimum, maximum = (f"{prefix}/{name}" for name in ("slope", "minimum", "maximum"))
        rounded, floats, sloped, clipped = (f"{prefix}/{name}" for name in ("rounded", "floats", "sloped", "clipped"))
        result += [
            make("Constant", [], [slope], value_floats=[activation[0]]),
            make("Constant", [], [minimum], value_float=activation[1]),
            make("Constant", [], [maximum], value_float=activation[2]),
            make("CastLike", [sums, names[0]], [rounded]),
            make("Cast", [rounded], [floats], to=carrier),
            make("PRelu", [floats, slope], [sloped]),
            make("Clip", [sloped, minimum, maximum], [clipped]),
            make("CastLike", [clipped, names[0]], list(node.output)),
        ]
    for new in result:
        new.metadata_props.extend(node.metadata_props)
    return result


def _added(sums: str, residual: str, like: str, carrier: int, out: str) -> list[onnx.NodeProto]:
    """Returns what adds a residual to sums, which are converted before; a residual of another shape is refused."""
    steps = ("rounded", "wide", "residual", "shape", "given", "same", "refused", "allowed", "reshaped")
    rounded, wide, addend, shape, given, same, refused, allowed, reshaped = (f"{out}/{step}" for step in steps)
    make = onnx.helper.make_node
    return [
        make("CastLike", [sums, like], [rounded]),
        make("Cast", [rounded], [wide], to=carrier),
        make("Cast", [residual], [addend], to=carrier),
        make("Shape", [wide], [shape]),
        make("Shape", [addend], [given]),
        make("Equal", [given, shape], [same]),
        make("Constant", [], [refused], value_ints=[-2]),
        make("Where", [same, shape, refused], [allowed]),
        make("Reshape", [addend, allowed], [reshaped], allowzero=1),
        make("Add", [wide, reshaped], [out]),
    ]


def _product_nodes(
    op: CompressedProduct, node: onnx.NodeProto, types: dict[str, int], calls: Calls
) -> list[onnx.NodeProto]:
    """Returns what replaces one product by compressed weights."""
    required = [each.name for each in op.inputs if not each.optional]
    subject = f"{DOMAIN}.{op.name} {shown(node.name or node.output[0])}"
    names = [*node.input, *[""] * (len(op.inputs) - len(node.input))]
    if len(names) > len(op.inputs) or not all(names[: len(required)]):
        more = [f"optionally {each.name}" for each in op.inputs if each.optional]
        raise PluginError(f"{subject}: has the inputs {names}; allowed: {', '.join([*required, *more])}.")
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    if list(attributes) != [BLOCK_SIZE] or not all(isinstance(v, int) for v in attributes.values()):
        raise PluginError(f"{subject}: has the attributes {attributes}; allowed: {BLOCK_SIZE}, an integer.")
    make, prefix = onnx.helper.make_node, f"{PYTHON_DOMAIN}/{node.output[0]}"
    nodes, inputs = [], []
    for formal, name in zip(op.inputs, names, strict=True):
        # Of inputs of one type the first one decides.
        first = next(own for each, own in zip(op.inputs, names, strict=True) if each.type == formal.type)
        allowed = [each for each in ELEMENTS[formal.type] if name == first or types.get(first, 0) in (0, each)]
        if types.get(name, 0) not in (0, *allowed):
            raise PluginError(
                f"{subject}: {formal.name} has type {_type_name(types[name])}; "
                f"allowed: {', '.join(map(_type_name, allowed))}."
            )
        is_index = formal.type == "I"
        inputs.append(name if is_index else f"{prefix}/{formal.name}")
        if name and not is_index:
            nodes.append(make("Cast", [name], inputs[-1:], to=TensorProto.FLOAT))
        elif not name:
            empty = onnx.helper.make_tensor("", TensorProto.FLOAT, [0], [])
            nodes.append(make("Constant", [], inputs[-1:], value=empty))
    task = {"op": op.name, "subject": subject, "calls": calls.key, "attributes": attributes}
    text = json.dumps(task | {"last": bool(names[-1])})
    flat, wide = [f"{prefix}/product", f"{prefix}/shape"], f"{prefix}/wide"
    return [
        *nodes,
        make(product_type(op.name), inputs, flat, name=node.name, domain=PYTHON_DOMAIN, task=text),
        make("Reshape", flat, [wide], allowzero=1),
        make("CastLike", [wide, names[0]], list(node.output)),
    ]


def _integer_conv_nodes(node: onnx.NodeProto, types: dict[str, int], calls: Calls) -> list[onnx.NodeProto]:
    """Returns what replaces one convolution of 8-bit integers."""
    op = CONV_INTEGER_TO_FLOAT
    subject = f"{DOMAIN}.{op.name} {shown(node.name or node.output[0])}"
    names = [*node.input, *[""] * (len(op.inputs) - len(node.input))]
    if len(names) > len(op.inputs) or not all(names[: op.required]):
        raise PluginError(f"{subject}: has the inputs {names}; allowed: {', '.join(op.inputs)}.")
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    lists = [value if isinstance(value, list) else [value] for value in attributes.values()]
    if set(attributes) != set(op.attributes) or not all(isinstance(each, int) for each in itertools.chain(*lists)):
        raise PluginError(f"{subject}: has the attributes {attributes}; allowed: integers {', '.join(op.attributes)}.")
    make, prefix = onnx.helper.make_node, f"{PYTHON_DOMAIN}/{node.output[0]}"
    nodes, inputs = [], [f"{prefix}/{formal}" for formal in op.inputs]
    like = {"x_zero_point": types.get(names[0], 0), "w_zero_point": types.get(names[1], 0)}
    for formal, name, cast in zip(op.inputs, names, inputs, strict=True):
        integers = formal in ("X", "W", *like)
        allowed = {like.get(formal, 0)} - {0} or set(op.elements if integers else (TensorProto.FLOAT,))
        if types.get(name, 0) not in (0, *allowed):
            raise PluginError(
                f"{subject}: {formal} has type {_type_name(types[name])}; "
                f"allowed: {', '.join(map(_type_name, sorted(allowed)))}."
            )
        if name:
            nodes.append(make("Cast", [name], [cast], to=TensorProto.FLOAT))
        else:
            empty = onnx.helper.make_tensor("", TensorProto.FLOAT, [0], [])
            nodes.append(make("Constant", [], [cast], value=empty))
    task = {"op": op.name, "subject": subject, "calls": calls.key, "attributes": attributes}
    text = json.dumps(task | {"given": [bool(name) for name in names]})
    flat = [f"{prefix}/result", f"{prefix}/shape"]
    return [
        *nodes,
        make(product_type(op.name), inputs, flat, name=node.name, domain=PYTHON_DOMAIN, task=text),
        make("Reshape", flat, list(node.output), allowzero=1),
    ]


def _task(
    node: onnx.NodeProto, op: Op, names: list[str], types: dict[str, int]
) -> tuple[int, list[float] | None, dict[str, Any]]:
    """Checks a node against its schema; returns its accumulation type, its activation, what its Python op is to do."""
    subject = f"{DOMAIN}.{op.name} {shown(node.name or node.output[0])}"
    kinds = {name: kind for name, kind, _ in (*op.attributes, ACTIVATION_ATTRIBUTE)}
    for attribute in node.attribute:
        kind = kinds.get(attribute.name)
        if kind is not None and attribute.type != kind.value:
            found = onnx.AttributeProto.AttributeType.Name(attribute.type)
            raise PluginError(f"{subject}: attribute {attribute.name} has the kind {found}; allowed: {kind.name}.")
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    declared = {name for name, _, _ in op.attributes}
    activation = attributes.pop(ACTIVATION, None)
    if activation is not None and tuple(activation) == NO_ACTIVATION:
        activation = None
    for name in sorted(declared ^ attributes.keys()):
        problem = "is missing" if name in declared else f"is unknown; allowed: {', '.join(sorted(declared))}"
        raise PluginError(f"{subject}: attribute {name} {problem}.")
    if len(names) > len(op.inputs) or not all(names[:-1]):
        raise PluginError(f"{subject}: has the inputs {names}; allowed: {', '.join(op.inputs[:-1])}, and optionally B.")
    accumulation = attributes.pop("accumulation_type")
    element = types.get(names[0], 0)
    allowed = {ACCUMULATION.get(element)} if element else set(CARRIERS)
    if accumulation not in allowed:
        raise PluginError(
            f"{subject}: attribute accumulation_type = {accumulation} is not allowed; "
            f"allowed for X of type {_type_name(element)}: {', '.join(map(str, sorted(filter(None, allowed))))}."
        )
    for formal, name in zip(op.inputs, names, strict=True):
        found = types.get(name, 0)
        if element and found and found != element and formal != "output_shape":
            raise PluginError(
                f"{subject}: {formal} has type {_type_name(found)}; allowed: {_type_name(element)}, as X has."
            )
    if activation is not None and (accumulation != TensorProto.FLOAT or len(activation) != 3):
        raise PluginError(
            f"{subject}: attribute {ACTIVATION} = {activation} is not allowed; "
            f"allowed: 3 numbers, for types that accumulate in float."
        )
    plain = {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}
    return (
        accumulation,
        activation,
        {
            "op": CONV_TRANSPOSE.name if "R" in op.inputs else op.name,
            "subject": subject,
            "bias": bool(names[-1]),
            "accumulation_type": accumulation,
            "attributes": plain,
        },
    )


def _type_name(element: int) -> str:
    return TensorProto.DataType.Name(element).lower() if element else "unknown"
