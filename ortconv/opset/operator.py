"""The definition of an operator of ours: schema, shape inference, function body, NumPy reference and Python op."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.defs
import onnx.parser
import onnx_ir as ir
from onnx import TensorProto

from ortconv.opset.domain import DOMAIN, VERSION
from ortconv.opset.inferred_node import Dim, InferredNode

__all__ = ["ACCUMULATION_TYPE", "NEWEST_OPSET", "Attribute", "Epilogue", "Formal", "Operator", "Switches", "Type"]

ACCUMULATION_TYPE = "accumulation_type"
"""Name of the attribute in which a node states the type of its products and sums, where that depends on its data."""

NEWEST_OPSET = 25
"""The newest version of ai.onnx for which function bodies are written."""

Switches = frozenset[str]
"""What distinguishes one function body of an operator from its others."""

_Schema = onnx.defs.OpSchema
_OPTIONS = _Schema.FormalParameterOption


@dataclasses.dataclass(frozen=True)
class Type:
    """A type constraint.

    Attributes:
        elements: Element types, as ``onnx.TensorProto`` numbers them.
        doc: Its description in the schema.
    """

    elements: tuple[int, ...]
    doc: str


@dataclasses.dataclass(frozen=True)
class Formal:
    """A formal input or output.

    Attributes:
        name: Its name.
        type: Name of its type constraint.
        doc: Its description in the schema.
        optional: Whether a node may omit it.
    """

    name: str
    type: str
    doc: str
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class Attribute:
    """An attribute.

    Attributes:
        name: Its name.
        type: Its ``onnx.defs.OpSchema.AttrType``; no strings.
        doc: Its description in the schema.
        required: Whether each node has it.
    """

    name: str
    type: Any
    doc: str
    required: bool = True


@dataclasses.dataclass(frozen=True)
class Epilogue:
    """The end of an operator that rounds to the type of the data in between.

    A Python op does not know that type. It computes the part before the epilogue, and standard ops the epilogue.

    Attributes:
        reference: The reference of the part before it, without the inputs and attributes below.
        attributes: Names of the optional attributes that it reads.
        text: Takes the values of these attributes that a node has and the type of the sums; returns nodes that compute
            ``Y`` from ``sums``, ``X`` and the inputs below, or "" if ``Y`` is ``sums`` in the type of ``X``. Raises
            ValueError if a value is not allowed.
        inputs: Names of the formal inputs that it reads alone.
    """

    reference: Callable[..., npt.NDArray[Any]]
    attributes: tuple[str, ...]
    text: Callable[[Mapping[str, Any], np.dtype[Any]], str]
    inputs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Operator:
    """An operator of the domain ``org.ortconv``.

    All nodes of an operator in a model share one function body, since ONNX Runtime before 1.27 ignores overloads. An
    operator with several bodies names `switches`; each set of them is a body. An optional input or attribute that is a
    switch belongs to the bodies in which that switch is on.

    Attributes:
        name: Op type.
        doc: What it computes.
        types: Type constraints by name.
        inputs: Formal inputs; the first is the data, ``X``.
        output: The output, ``Y``, whose type is that of an input or a constraint of one element type.
        attributes: Its attributes.
        accumulation: Element type of ``X`` -> type of products and sums. The values are one type unless the nodes have
            the attribute `ACCUMULATION_TYPE`.
        infer: Checks a node and returns the shape of ``Y``, or None if its rank is not known.
        oldest_opset: The oldest version of ai.onnx that has a function body.
        text: Nodes of the function body, in the syntax of ``onnx.parser``; or a function of ai.onnx's version and the
            switches that returns them, and raises ValueError if there is no such body.
        reference: The NumPy reference: inputs by position, attributes but `ACCUMULATION_TYPE` by name.
        switches: Names of the switches.
        unify: Changes all nodes of a model, in its main graph, so that they share a body; returns its switches. Raises
            ConversionError if they cannot.
        epilogue: The part that Python ops do not compute.
    """

    name: str
    doc: str
    types: Mapping[str, Type]
    inputs: tuple[Formal, ...]
    output: Formal
    attributes: tuple[Attribute, ...]
    accumulation: Mapping[int, int]
    infer: Callable[[InferredNode], list[Dim] | None]
    oldest_opset: int
    text: str | Callable[[int, Switches], str]
    reference: Callable[..., npt.NDArray[Any]]
    switches: tuple[str, ...] = ()
    unify: Callable[[Sequence[ir.Node], ir.Graph], Switches] = lambda nodes, graph: frozenset()
    epilogue: Epilogue | None = None

    @property
    def opsets(self) -> range:
        """The versions of ai.onnx that have a function body."""
        return range(self.oldest_opset, NEWEST_OPSET + 1)

    def schema(self) -> onnx.defs.OpSchema:
        """Returns the schema with shape inference, for ``onnx.defs``."""
        schema = _Schema(
            self.name,
            DOMAIN,
            VERSION,
            doc=self.doc,
            inputs=[
                _Schema.FormalParameter(
                    each.name, each.type, each.doc, param_option=_OPTIONS.Optional if each.optional else _OPTIONS.Single
                )
                for each in self.inputs
            ],
            outputs=[_Schema.FormalParameter(self.output.name, self.output.type, self.output.doc)],
            type_constraints=[
                (name, [f"tensor({TensorProto.DataType.Name(each).lower()})" for each in type_.elements], type_.doc)
                for name, type_ in self.types.items()
            ],
            attributes=[
                _Schema.Attribute(each.name, each.type, each.doc, required=each.required) for each in self.attributes
            ],
        )
        schema.set_type_and_shape_inference_function(self._infer)
        return schema

    def body(self, opset: int, switches: Switches = frozenset()) -> onnx.FunctionProto:
        """Returns a function body: standard ONNX that computes the same.

        A body without a switch's input has no formal input for it. So a node to which another tool adds that input
        later, as onnx-simplifier does with a bias, fails to load and does not lose it silently.

        Args:
            opset: The model's version of ai.onnx, which the body must share.
            switches: The switches that are on; others than those of the operator have no effect.

        Raises:
            ValueError: There is no such body in that version.
        """
        if opset not in self.opsets:
            raise ValueError(f"there is no body of {self.name} in opset {opset}")
        off = set(self.switches) - switches
        inputs = [each.name for each in self.inputs if each.name not in off]
        attributes = [each.name for each in self.attributes if each.name not in off]
        nodes = self.text if isinstance(self.text, str) else self.text(opset, switches)
        function = onnx.parser.parse_function(
            f'<opset_import: ["": {opset}], domain: "{DOMAIN}">\n'
            f"{self.name} <{', '.join(attributes)}> ({', '.join(inputs)}) => ({self.output.name}) {{\n{nodes}}}\n"
        )
        function.doc_string = self.doc
        return function

    def bodies(self, opset: int) -> Iterator[onnx.FunctionProto]:
        """Yields every function body that the operator may have in a version of ai.onnx."""
        for states in itertools.product((False, True), repeat=len(self.switches)):
            on = frozenset(name for name, state in zip(self.switches, states, strict=True) if state)
            try:
                yield self.body(opset, on)
            except ValueError:  # There is none.
                continue

    def _infer(self, ctx: Any) -> None:
        node = InferredNode(self.name, ctx)
        shape = self.infer(node)
        elements = self.types[self.output.type].elements
        like = next((i for i, each in enumerate(self.inputs) if each.type == self.output.type), None)
        node.set_output(elements[0] if len(elements) == 1 or like is None else node.element(like), shape)
