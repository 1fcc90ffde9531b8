"""The registry of oneDNN Graph lowerings.

Attributes that several ops share are one dataclass: a lowering with a keyword-only parameter of that type takes the
fields as attributes, with their types and defaults.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ortconv.frontend.attributes import coerce_typed
from ortconv.frontend.registry import How, Registry

__all__ = ["REGISTRY"]

_F = TypeVar("_F", bound=Callable[..., Any])


class _Registry(Registry):
    def lowering(
        self,
        *op_types: str,
        since: int = 1,
        until: int | None = None,
        how: How | None = None,
        without: Collection[str] = (),
    ) -> Callable[[_F], _F]:
        """See `Registry.lowering`."""
        register = super().lowering(*op_types, since=since, until=until, how=how, without=without)
        return lambda function: register(_with_fields(function))


def _with_fields(function: _F) -> _F:
    """Returns a function with the fields of a dataclass in place of the parameter of that type, if there is one."""
    signature, hints = inspect.signature(function), typing.get_type_hints(function)
    name = next((name for name in signature.parameters if dataclasses.is_dataclass(hints[name])), None)
    if name is None:
        return function
    shared = hints[name]
    fields = inspect.signature(shared).parameters

    @functools.wraps(function)
    def lowering(*inputs: Any, **attributes: Any) -> Any:
        values = {field: attributes.pop(field) for field in fields if field in attributes}
        return function(*inputs, **{name: shared(**values)}, **attributes)

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += fields.values() if parameter.name == name else [parameter]
    vars(lowering)["__signature__"] = signature.replace(parameters=parameters)
    lowering.__annotations__ = hints | typing.get_type_hints(shared.__init__)
    return typing.cast(_F, lowering)


REGISTRY = _Registry("oneDNN Graph", coerce_typed, package="ortconv.converters.onednn_graph.ops")
