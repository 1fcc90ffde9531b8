"""Replaces a ConvTranspose and the nodes that are fused with it by one node of ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir
import onnx_ir.convenience

from ortconv.errors import ModelFormatError
from ortconv.opset.convolution_terms import ACCUMULATION, ACTIVATION, NO_ACTIVATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.opset.ops.transposed_convolution_add import TRANSPOSED_CONVOLUTION_ADD
from ortconv.opset.ops.transposed_convolution_to_shape import TRANSPOSED_CONVOLUTION_TO_SHAPE
from ortconv.optimizer import affine
from ortconv.optimizer.site import Ints, Site
from ortconv.optimizer.values import EXACT, Array, Sizes, computed, element_type, permuted

__all__ = ["Emitter"]

_Attribute = int | str | Ints | tuple[float, float, float]
_BIAS = {TRANSPOSED_CONVOLUTION.name: 2, TRANSPOSED_CONVOLUTION_ADD.name: 3, TRANSPOSED_CONVOLUTION_TO_SHAPE.name: 3}
"""Which input of a transposed convolution of ours is the bias."""


class Emitter:
    """Changes a model; new constants go to its main graph, which its subgraphs see.

    Args:
        model: The model.
        name: How messages call it.
    """

    def __init__(self, model: ir.Model, name: str) -> None:
        self._name = name
        self._root = model.graph
        self._names = {value.name for graph in model.graphs() for value in _values(graph)}

    def emit(self, site: Site) -> ir.Node:
        """Replaces the nodes of a site by one, which keeps the name of the ConvTranspose and of the last result.

        Raises:
            ModelFormatError: The model declares an output of another size than ONNX Runtime computes.
        """
        shape = self.shape(site)
        old = site.output
        inputs: list[ir.Value | None] = [site.x, site.w]
        if site.factor is not None:
            inputs[1] = self.constant(site.node, "weights", affine.scaled(site).astype(site.dtype.numpy()))
        attributes: dict[str, _Attribute] = {
            "strides": site.strides,
            "dilations": site.dilations,
            "group": site.group,
            "x_perm": site.x_perm,
            "w_perm": site.w_perm,
            "y_perm": site.y_perm,
            "accumulation_type": ACCUMULATION[site.dtype],
        }
        if site.activation != NO_ACTIVATION:
            attributes[ACTIVATION] = site.activation
        op = TRANSPOSED_CONVOLUTION
        if site.residual is not None:
            op = TRANSPOSED_CONVOLUTION_ADD
            inputs.append(site.residual)
        if site.output_shape is None:
            attributes |= {"pads": (*site.begin, *site.end), "output_padding": site.output_padding}
        else:
            op = TRANSPOSED_CONVOLUTION_TO_SHAPE
            attributes |= {"pads_begin": site.begin, "auto_pad": site.rule}
            attributes["output_padding"] = site.output_padding
            inputs.append(self.constant(site.node, "output_shape", np.array(site.output_shape, np.int64)))
        bias = site.bias
        if isinstance(bias, np.ndarray):
            bias = self.constant(site.node, "bias", bias.astype(site.dtype.numpy()))
        node = ir.node(
            op.name,
            inputs if bias is None else [*inputs, bias],
            attributes,
            domain=DOMAIN,
            name=site.node.name,
            doc_string=site.node.doc_string,
            metadata_props=dict(site.node.metadata_props),
        )
        gone = [site.node, *site.after]
        unused = [site.w, *(value for each in gone for value in each.inputs)]
        self.replace(gone, [node], old, shape, site.dtype, unused)
        for transpose in site.before:
            graph, inputs = transpose.graph, list(transpose.inputs)
            if not transpose.outputs[0].uses() and isinstance(graph, ir.Graph):  # A constant's is removed already.
                graph.remove(transpose, safe=True)
                _remove_unused(inputs)
        return node

    def replace(
        self,
        gone: Sequence[ir.Node],
        new: Sequence[ir.Node],
        old: ir.Value,
        shape: ir.Shape | None,
        dtype: ir.DataType | None,
        unused: Iterable[ir.Value | None],
    ) -> None:
        """Replaces nodes of one graph; the last of the new ones computes what the last of the old ones did.

        Args:
            gone: The nodes to remove; the new ones stand where the last of them stood.
            new: The nodes to add, in order.
            old: The result of the removed nodes; the new result takes its name and all that is said of it.
            shape: The shape of the result.
            dtype: Its element type.
            unused: Constants that are removed unless another node reads them.
        """
        self.replace_values(gone, new, [(old, new[-1].outputs[0], shape)], dtype, unused)

    def replace_values(
        self,
        gone: Sequence[ir.Node],
        new: Sequence[ir.Node],
        results: Sequence[tuple[ir.Value, ir.Value, ir.Shape | None]],
        dtype: ir.DataType | None,
        unused: Iterable[ir.Value | None],
    ) -> None:
        """Replaces nodes of one graph that have several results.

        Args:
            gone: As for `replace`, like `new`, `dtype` and `unused`.
            new: The nodes to add, in order.
            results: The old results, the new ones that take their names, and their shapes.
            dtype: Their element type.
            unused: Constants that are removed unless another node reads them.
        """
        graph = gone[-1].graph
        assert isinstance(graph, ir.Graph)
        for old, result, _ in results:
            result.doc_string = old.doc_string
            result.metadata_props.update(old.metadata_props)
            result.meta.update(old.meta)
        olds, news = [old for old, _, _ in results], [result for _, result, _ in results]
        onnx_ir.convenience.replace_nodes_and_values(graph, gone[-1], gone, new, olds, news)
        for _, result, shape in results:
            if dtype is not None:
                result.type = ir.TensorType(dtype)
            result.shape = shape
        _remove_unused(unused)

    def finish(self, nodes: Iterable[ir.Node], sizes: Sizes) -> None:
        """Gives nodes of ours a bias of zeros where others of their type have one: they share a body.

        Args:
            nodes: All nodes of the model.
            sizes: What sizes are known.
        """
        ours = [node for node in nodes if node.domain == DOMAIN and node.op_type in _BIAS]
        biased = {node.op_type for node in ours if _has_bias(node)}
        for node in ours:
            if node.op_type not in biased or _has_bias(node):
                continue
            channels, dtype = _channels(node, sizes), element_type(node.inputs[0]) or element_type(node.inputs[1])
            if channels is not None and dtype is not None:
                node.resize_inputs(_BIAS[node.op_type] + 1)
                zeros = np.zeros(channels, dtype.numpy())
                node.replace_input_with(_BIAS[node.op_type], self.constant(node, "bias", zeros))

    def shape(self, site: Site) -> ir.Shape:
        """Returns the sizes of the result: those that are certain, and as declared otherwise.

        ONNX's shape inference, from which a declared shape may come, is wrong for some ConvTranspose nodes. A wrong one
        of an output is refused: to keep it would contradict our node, from whose sizes ONNX Runtime computes others.
        """
        value, certain = site.output, site.size
        declared: Sequence[object] = (None,) * len(certain) if value.shape is None else tuple(value.shape)
        contradicts = len(declared) != len(certain) or any(
            isinstance(stated, int) and size is not None and stated != size
            for stated, size in zip(declared, certain, strict=True)
        )
        if value.is_graph_output() and contradicts:
            raise ModelFormatError(
                self._name,
                f"output {value.name}",
                f"is declared with shape {list(map(str, declared))}; ONNX Runtime computes "
                f"{['?' if size is None else str(size) for size in certain]}. Correct the declaration.",
            )
        if value.shape is None or contradicts:
            return ir.Shape(certain)
        return value.shape

    def constant(self, node: ir.Node, role: str, data: Array) -> ir.Value:
        """Returns a new constant, which is named after a node and what it is for."""
        name = self._new_name(node, role)
        tensor = ir.tensor(data, name=name)
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(data.shape), const_value=tensor)
        self._root.register_initializer(value)
        return value

    def intermediate(self, node: ir.Node, role: str, made: ir.Node, dtype: ir.DataType) -> ir.Value:
        """Returns the result of a new node, named after the node that is replaced and what the new one does."""
        value = made.outputs[0]
        value.name, value.type = self._new_name(node, role), ir.TensorType(dtype)
        return value

    def remove_unused(self, values: Iterable[ir.Value | None]) -> None:
        """Removes constants that nothing reads any more, and nodes that computed them from others."""
        _remove_unused(values)

    def _new_name(self, node: ir.Node, role: str) -> str:
        prefix = f"{node.name or node.outputs[0].name}/{role}"
        numbered = (f"{prefix}_{number}" for number in itertools.count(2))
        name = next(each for each in itertools.chain([prefix], numbered) if each not in self._names)
        self._names.add(name)
        return name


def _has_bias(node: ir.Node) -> bool:
    return len(node.inputs) > _BIAS[node.op_type] and node.inputs[_BIAS[node.op_type]] is not None


def _channels(node: ir.Node, sizes: Sizes) -> int | None:
    """Returns M of a transposed convolution of ours."""
    weights = None if node.inputs[1] is None else sizes.of(node.inputs[1])
    if weights is None:
        return None
    per_group = permuted(weights, node.attributes["w_perm"].as_ints())[1]
    return None if per_group is None else per_group * node.attributes["group"].as_int()


def _values(graph: ir.Graph) -> Iterable[ir.Value]:
    return (*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs))


def _remove_unused(values: Iterable[ir.Value | None]) -> None:
    """Removes constants that nothing reads any more, and nodes that computed them from others."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value is None or value.uses() or value.is_graph_output() or value.is_graph_input():
            continue
        node = value.producer()
        if node is None and value.is_initializer() and value.graph is not None:
            del value.graph.initializers[str(value.name)]
        elif node is not None and isinstance(node.graph, ir.Graph) and _is_constant(node):
            waiting += node.inputs
            node.graph.remove(node, safe=True)


def _is_constant(node: ir.Node) -> bool:
    """Whether a node computes one value, always the same."""
    if node.domain:
        return False
    return node.op_type == "Constant" or (node.op_type in EXACT and computed(node.outputs[0]) is not None)
