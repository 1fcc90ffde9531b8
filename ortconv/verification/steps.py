"""The operations between known values and a wanted one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

from ortconv.model_io.input_data import Array

__all__ = ["Step", "leading_to"]


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation of a source.

    Attributes:
        op_type: Its type.
        inputs: The values that it reads; None for a constant and for an absent input.
        outputs: The values that it computes.
        run: Computes the outputs from the inputs, of which those for None are ignored; if the second argument is true,
            from the absolute values of inputs and constants.
        data: Returns the constant at an input, or None where there is none.
        attributes: Its attributes, as the source names them.
    """

    op_type: str
    inputs: tuple[Hashable | None, ...]
    outputs: tuple[Hashable, ...]
    run: Callable[[Sequence[Array | None], bool], Sequence[Array]]
    data: Callable[[int], Array | None]
    attributes: Mapping[str, object]


def leading_to(steps: Iterable[Step], wanted: Hashable, known: Collection[Hashable]) -> list[Step]:
    """Returns the steps that compute a value from known values and constants, in order.

    Args:
        steps: In topological order.
        wanted: The value, which is computed even if it is known.
        known: Values that need not be computed.
    """
    producers = {output: step for step in steps for output in step.outputs}
    order = {id(step): index for index, step in enumerate(producers.values())}
    found: dict[int, Step] = {}
    waiting = [producers[wanted]] if wanted in producers else []
    while waiting:
        step = waiting.pop()
        if id(step) not in found:
            found[id(step)] = step
            waiting += [producers[each] for each in step.inputs if each in producers and each not in known]
    return sorted(found.values(), key=lambda step: order[id(step)])
