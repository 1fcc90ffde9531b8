"""What every pass gets beside the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir

from ortconv.graph.builder import Builder, Step
from ortconv.graph.edit import Inserter
from ortconv.options import Options
from ortconv.passes.constants import Constants

__all__ = ["Context"]


@dataclasses.dataclass(frozen=True)
class Context:
    """The options of a conversion, and what makes and records nodes and constants.

    Attributes:
        options: The options of the conversion.
        states: The inputs of the graph that are states: what a caller feeds back from the last call.
        constants: Makes constants.
        inserter: Makes nodes beside others, and records them.
        unique: Returns a name that nothing else has.
        steps: The step of each node: what is reported of the source node behind it.
        saturating: Nodes whose int8 products saturate on x86-64 CPUs without VNNI; passes add to it.
    """

    options: Options
    states: Collection[ir.Value]
    constants: Constants
    inserter: Inserter
    unique: Callable[[str], str]
    steps: dict[ir.Node, Step]
    saturating: list[ir.Node] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, graph: ir.Graph, states: Collection[ir.Value], builder: Builder) -> Context:
        """Returns the context of a graph that a builder has emitted."""
        steps = {node: step for step in builder.steps for node in step.nodes}

        def record(beside: ir.Node, made: ir.Node) -> None:
            steps[made] = steps[beside]
            steps[made].nodes.append(made)

        return cls(
            builder.options,
            states,
            Constants(graph, builder.unique, builder.budget),
            Inserter(builder.unique, record),
            builder.unique,
            steps,
        )

    def note(self, node: ir.Node, text: str) -> None:
        """Reports what became of a node; `text` continues a sentence that begins with the node."""
        self.steps[node].notes.append(text)

    def record(self, node: ir.Node, made: Sequence[ir.Node], *, before: bool = False) -> None:
        """Adds new nodes to the step of a node.

        Args:
            node: The node.
            made: The new nodes, in topological order.
            before: Whether they stand before the node in the report, and not at the end.
        """
        step = self.steps[node]
        place = step.nodes.index(node) if before else len(step.nodes)
        step.nodes[place:place] = made
        self.steps.update((each, step) for each in made)
