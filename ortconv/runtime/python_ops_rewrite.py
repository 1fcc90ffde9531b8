"""Rewrites a model so that Python ops execute the nodes of ``org.ortconv``.

Each node becomes, in the domain ``org.ortconv.py``, a Python op that works in the node's accumulation type,

    inputs --Cast--> Python op --data, shape--> Reshape --CastLike--> Y

so that one Python op per accumulation type serves every element type. ONNX Runtime's Cast converts the sums to the
type of Y: it rounds once, to nearest even, and integers wrap. The Reshape is there because onnxruntime-extensions ends
the process when the output of a Python op does not fit a buffer that the caller has bound. An operator's epilogue, such
as a residual or an activation, is a model-local function of standard ops in the place of the CastLike.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import onnx
import onnx.helper
import onnx.inliner
import onnx.parser
from onnx import TensorProto

from ortconv.errors import PluginError, shown
from ortconv.model_io import protos
from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import ACCUMULATION_TYPE, Operator
from ortconv.opset.ops import BY_NAME
from ortconv.runtime.python_ops import PYTHON_DOMAIN, Calls, carrier, is_integer_input, op_type, python_inputs

__all__ = ["rewrite"]

_OLDEST_OPSET = 15
"""The version of ai.onnx that introduced CastLike."""


def rewrite(model: onnx.ModelProto, calls: Calls) -> None:
    """Replaces the nodes of ``org.ortconv`` by Python ops, in subgraphs and model-local functions too.

    Names, types and shapes of inputs and outputs do not change. Functions that hold such nodes are inlined, because the
    ops take their attributes as one string, which cannot refer to a function's attributes.

    Args:
        model: The model, which is changed.
        calls: Collects failures.

    Raises:
        PluginError: A node of ours contradicts its schema, or the model's opset is too old.
    """
    others = [each for each in model.functions if not (each.domain == DOMAIN and each.name in BY_NAME)]
    del model.functions[:]
    model.functions.extend(others)
    while holders := [(f.domain, f.name) for f in model.functions if any(map(_is_ours, protos.nodes(f.node)))]:
        model.CopyFrom(onnx.inliner.inline_selected_functions(model, holders, exclude=False))
    if not any(map(_is_ours, protos.nodes(model.graph.node))):
        return
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < _OLDEST_OPSET:
        raise PluginError(
            f"the model imports opset {opset} of ai.onnx; allowed for Python ops: {_OLDEST_OPSET} or newer."
        )
    _Rewriter(model, calls, opset).rewrite(model.graph, {})
    model.opset_import.append(onnx.helper.make_opsetid(PYTHON_DOMAIN, 1))


def _is_ours(node: onnx.NodeProto) -> bool:
    return node.domain == DOMAIN and node.op_type in BY_NAME


class _Rewriter:
    def __init__(self, model: onnx.ModelProto, calls: Calls, opset: int) -> None:
        self._model = model
        self._calls = calls
        self._opset = opset
        self._epilogues: dict[str, str] = {}

    def rewrite(self, graph: onnx.GraphProto, outer: Mapping[str, int]) -> None:
        """Rewrites a graph; `outer` holds the declared element types of values in the graphs around it."""
        types = {**outer, **{tensor.name: tensor.data_type for tensor in graph.initializer}}
        for value in itertools.chain(graph.input, graph.output, graph.value_info):
            types[value.name] = value.type.tensor_type.elem_type
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            for subgraph in protos.subgraphs(node):
                self.rewrite(subgraph, types)
            nodes.extend(self._replacement(node, types) if _is_ours(node) else [node])
        del graph.node[:]
        graph.node.extend(nodes)

    def _replacement(self, node: onnx.NodeProto, types: Mapping[str, int]) -> list[onnx.NodeProto]:
        """Returns the nodes that replace a node of ours."""
        operator = BY_NAME[node.op_type]
        checked = _Checked(operator, node, types)
        make, prefix = onnx.helper.make_node, f"{PYTHON_DOMAIN}/{node.output[0]}"
        result, inputs = [], []
        for formal in python_inputs(operator):
            name = checked.inputs[formal.name]
            is_integer = is_integer_input(operator, formal)
            if is_integer and name:
                inputs.append(name)
                continue
            inputs.append(f"{prefix}/{formal.name}")
            if name:
                result.append(make("Cast", [name], inputs[-1:], to=carrier(checked.sums)))
            else:
                element = TensorProto.INT64 if is_integer else carrier(checked.sums)
                empty = onnx.helper.make_tensor("", element, [0], [])
                result.append(make("Constant", [], inputs[-1:], value=empty))
        task = {
            "subject": checked.subject,
            "calls": self._calls.key,
            "sums": checked.sums,
            "given": [bool(checked.inputs[formal.name]) for formal in python_inputs(operator)],
            "attributes": checked.attributes,
        }
        flat, sums = [f"{prefix}/result", f"{prefix}/result_shape"], f"{prefix}/sums"
        kind = op_type(operator, checked.sums)
        result += [
            make(kind, inputs, flat, name=node.name, domain=PYTHON_DOMAIN, task=json.dumps(task)),
            make("Reshape", flat, [sums], allowzero=1),
            self._end(operator, checked, sums, node.output[0]),
        ]
        for new in result:
            new.metadata_props.extend(node.metadata_props)
        return result

    def _end(self, operator: Operator, checked: _Checked, sums: str, output: str) -> onnx.NodeProto:
        """Returns the node that computes the output of an operator from the result of its Python op."""
        make, data = onnx.helper.make_node, checked.inputs[operator.inputs[0].name]
        if checked.epilogue:
            assert operator.epilogue is not None
            formals = [*operator.epilogue.inputs]
            name = self._function(["sums", operator.inputs[0].name, *formals], [*checked.outer], checked.epilogue)
            inputs = [sums, data, *(checked.inputs[formal] for formal in formals)]
            return make(name, inputs, [output], domain=PYTHON_DOMAIN, **checked.outer)
        if operator.output.type == operator.inputs[0].type:
            return make("CastLike", [sums, data], [output])
        return make("Identity", [sums], [output])

    def _function(self, inputs: list[str], attributes: list[str], text: str) -> str:
        """Returns the name of a function of the model with these nodes."""
        if text not in self._epilogues:
            self._epilogues[text] = name = f"Epilogue{len(self._epilogues)}"
            self._model.functions.append(
                onnx.parser.parse_function(
                    f'<opset_import: ["": {self._opset}], domain: "{PYTHON_DOMAIN}">\n'
                    f"{name} <{', '.join(attributes)}> ({', '.join(inputs)}) => (Y) {{\n{text}}}\n"
                )
            )
        return self._epilogues[text]


class _Checked:
    """A node of ours, checked against the definition of its operator.

    Attributes:
        subject: How messages call it.
        inputs: Formal input -> name of the value, or "".
        sums: Element type of its products and sums.
        attributes: Those of the Python op.
        outer: Those of the epilogue.
        epilogue: The text of the epilogue, or "".

    Raises:
        PluginError: The node contradicts the definition.
    """

    def __init__(self, operator: Operator, node: onnx.NodeProto, types: Mapping[str, int]) -> None:
        self.subject = f"{DOMAIN}.{operator.name} {shown(node.name or node.output[0])}"
        self.attributes = self._attributes(operator, node)
        self.inputs = self._inputs(operator, node, types)
        self.sums = self._sums(operator, types.get(self.inputs[operator.inputs[0].name], 0))
        self.outer: dict[str, Any] = {}
        self.epilogue = ""
        if operator.epilogue is not None:
            outer = {name: self.attributes.pop(name, None) for name in operator.epilogue.attributes}
            self.outer = {name: value for name, value in outer.items() if value is not None}
            dtype = onnx.helper.tensor_dtype_to_np_dtype(self.sums)
            try:
                self.epilogue = operator.epilogue.text(self.outer, dtype)
            except ValueError as error:
                raise PluginError(f"{self.subject}: {error}.") from error
            self.outer[ACCUMULATION_TYPE] = self.sums

    def _attributes(self, operator: Operator, node: onnx.NodeProto) -> dict[str, Any]:
        declared = {each.name: each for each in operator.attributes}
        for attribute in node.attribute:
            known = declared.get(attribute.name)
            if known is not None and attribute.type != known.type.value:
                kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
                raise PluginError(
                    f"{self.subject}: attribute {attribute.name} has the kind {kind}; allowed: {known.type.name}."
                )
        found = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        required = {name for name, each in declared.items() if each.required}
        for name in sorted((required - found.keys()) | (found.keys() - declared.keys())):
            problem = "is missing" if name in declared else f"is unknown; allowed: {', '.join(sorted(declared))}"
            raise PluginError(f"{self.subject}: attribute {name} {problem}.")
        return found

    def _inputs(self, operator: Operator, node: onnx.NodeProto, types: Mapping[str, int]) -> dict[str, str]:
        formals = operator.inputs
        names = [*node.input, *[""] * (len(formals) - len(node.input))]
        if len(names) > len(formals) or any(
            not name and not formal.optional for name, formal in zip(names, formals, strict=True)
        ):
            allowed = [f"optionally {each.name}" if each.optional else each.name for each in formals]
            raise PluginError(f"{self.subject}: has the inputs {names}; allowed: {', '.join(allowed)}.")
        decided: dict[str, int] = {}
        for formal, name in zip(formals, names, strict=True):
            element = types.get(name, 0)
            wanted = (decided[formal.type],) if formal.type in decided else operator.types[formal.type].elements
            if element and element not in wanted:
                raise PluginError(
                    f"{self.subject}: {formal.name} has type {_type_name(element)}; "
                    f"allowed: {', '.join(map(_type_name, wanted))}."
                )
            if element:
                decided[formal.type] = element
        return {formal.name: name for formal, name in zip(formals, names, strict=True)}

    def _sums(self, operator: Operator, element: int) -> int:
        possible = {operator.accumulation[element]} if element else set(operator.accumulation.values())
        stated = self.attributes.pop(ACCUMULATION_TYPE, None)
        if stated is None:
            return possible.pop()
        if stated not in possible:
            raise PluginError(
                f"{self.subject}: attribute {ACCUMULATION_TYPE} = {stated} is not allowed; "
                f"allowed for X of type {_type_name(element)}: {', '.join(map(str, sorted(possible)))}."
            )
        return int(stated)


def _type_name(element: int) -> str:
    return TensorProto.DataType.Name(element).lower() if element else "unknown"
