"""Tensor names: the escaped lists that IR files hold, and unique names out of wanted ones."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence

__all__ = ["join_names", "known_name", "split_names", "unique_names"]

_SEPARATOR = re.compile(r"(?<!\\),")


def split_names(text: str) -> tuple[str, ...]:
    r"""Splits a list of names at its commas; a comma inside a name is written ``\,``.

    Returns:
        The names in the order of `openvino.Output.any_name`, which is the first of them.
    """
    names = {name.replace("\\,", ",") for name in _SEPARATOR.split(text)}
    return tuple(sorted(names - {""}))


def known_name(names: Sequence[str], friendly: str) -> str:
    """Returns the one of a tensor's names that users know.

    OpenVINO takes data by any of them, and not by the friendly name of a layer, which frontends make the name that the
    framework's model had: so it is chosen where it is among them. Bare numbers are made up by tracers.

    Args:
        names: The names in the order of `split_names`; one at least.
        friendly: The layer's name.
    """
    if friendly in names:
        return friendly
    return next((name for name in names if not name.isdecimal()), names[0])


def join_names(names: Iterable[str]) -> str:
    """Returns a list of names as `split_names` reads it."""
    return ",".join(name.replace(",", "\\,") for name in names)


def unique_names(wanted: Mapping[Hashable, str]) -> dict[Hashable, str]:
    """Makes names unique.

    The first key that wants a name gets it; later ones get it with a number, one that nobody wants.

    Args:
        wanted: Wanted names by key; their order decides.

    Returns:
        Unique names by key, in the same order.
    """
    taken = set(wanted.values())
    counts: dict[str, int] = {}
    unique: dict[Hashable, str] = {}
    for key, name in wanted.items():
        counts[name] = counts.get(name, 0) + 1
        candidate = name
        if counts[name] > 1:
            while (candidate := f"{name}_{counts[name]}") in taken:
                counts[name] += 1
            taken.add(candidate)
        unique[key] = candidate
    return unique
