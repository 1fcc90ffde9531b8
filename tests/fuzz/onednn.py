"""oneDNN Graph JSON."""

from __future__ import annotations

import json
import math
import pathlib
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ortconv.api import conversion
from ortconv.onednn.op_schema import ATTRIBUTE_TYPES, DTYPES, KINDS
from tests.fuzz import values

__all__ = ["SUFFIX", "mutate", "run"]

SUFFIX = ".json"

_SMALL = 1 << 16
"""Random data is made for constants of so many elements: what a user declares and asks for may be large."""


def run(data: bytes, folder: pathlib.Path) -> None:
    """Converts a file; the checksum of its bytes chooses how."""
    path = folder / "model.json"
    path.write_bytes(data)
    choice = zlib.crc32(data)
    conversion(
        path,
        semantics=("spec", "runtime")[choice % 2],
        target=("auto", "onnx", "plugin")[choice // 2 % 3],
        random_constants=0 if choice // 6 % 2 and _is_small(data) else None,
    ).to_proto()


def _is_small(data: bytes) -> bool:
    try:
        shapes = [tensor["shape"] for tensor in _tensors(json.loads(data))]
        return all(all(isinstance(size, int) for size in shape) and math.prod(shape) < _SMALL for shape in shapes)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes | None:
    """Changes values of a file, or returns None where it is no JSON; `others` are files to take operations from."""
    try:
        document = json.loads(data)
        ops = document["graph"]
        if not ops:
            return None
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            rng.choice(_MUTATIONS)(document, rng, others)
        return json.dumps(document).encode()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None


def _tensors(document: Any) -> Iterator[Any]:
    for op in document["graph"]:
        yield from op["inputs"]
        yield from op["outputs"]


def _same(document: Any, rng: random.Random) -> list[Any]:
    """Returns all descriptions of one tensor."""
    tensors = list(_tensors(document))
    identity = rng.choice(tensors)["id"]
    return [tensor for tensor in tensors if tensor["id"] == identity]


def _shape(document: Any, rng: random.Random, others: Sequence[bytes]) -> None:
    same = _same(document, rng)
    shape = list(same[0]["shape"])
    if shape and rng.random() < 0.7:
        shape[rng.randrange(len(shape))] = values.size(rng)
    elif rng.random() < 0.2:
        shape = [-(2**63)] * rng.choice((1, len(shape)))
    else:
        shape = [values.size(rng) for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 6, 13)))]
    for tensor in same:
        tensor["shape"] = shape


def _dtype(document: Any, rng: random.Random, others: Sequence[bytes]) -> None:
    dtype = rng.choice(("undef", *DTYPES))
    for tensor in _same(document, rng):
        tensor["dtype"] = dtype


def _property(document: Any, rng: random.Random, others: Sequence[bytes]) -> None:
    name = rng.choice(("property_type", "layout_type", "stride"))
    value: object = rng.choice(("undef", "variable", "constant", "host_scalar", "any", "opaque", "strided"))
    for tensor in _same(document, rng):
        tensor[name] = values.listed(rng) if name == "stride" else value


def _attribute(document: Any, rng: random.Random, others: Sequence[bytes]) -> None:
    """Gives an operation an attribute of its kind with another value."""
    op = rng.choice(document["graph"])
    names = sorted({*op["attrs"], *(KINDS[op["kind"]].attributes if op["kind"] in KINDS else ())})
    if not names:
        return
    name = rng.choice(names)
    if name in op["attrs"] and rng.random() < 0.1:
        del op["attrs"][name]
        return
    old = op["attrs"].get(name)
    if old and isinstance(old["value"], list) and old["value"] and rng.random() < 0.6:
        old["value"][rng.randrange(len(old["value"]))] = values.integer(rng)
        return
    kind = ATTRIBUTE_TYPES[name] if name in ATTRIBUTE_TYPES and rng.random() < 0.95 else rng.choice(sorted(_VALUES))
    op["attrs"][name] = {"type": kind, "value": _VALUES[kind](rng)}


def _number(rng: random.Random) -> float:
    return float(rng.choice(values.FLOATS)) if rng.random() < 0.5 else values.integer(rng)


_VALUES: dict[str, Callable[[random.Random], object]] = {
    "s64": values.integer,
    "s64[]": values.listed,
    "f32": _number,
    "f32[]": lambda rng: [_number(rng) for _ in range(rng.randint(0, 4))],
    "bool": lambda rng: rng.choice((True, False, 0, 1, 2)),
    "string": lambda rng: rng.choice(values.WORDS),
}


def _kind(document: Any, rng: random.Random, others: Sequence[bytes]) -> None:
    """Gives an operation the kind and attributes of another one."""
    op = rng.choice(document["graph"])
    other = rng.choice(json.loads(rng.choice(others))["graph"])
    op["kind"], op["attrs"] = other["kind"], other["attrs"]


def _links(document: Any, rng: random.Random, others: Sequence[bytes]) -> None:
    """Drops, repeats or exchanges tensors of an operation."""
    op = rng.choice(document["graph"])
    side = rng.choice((op["inputs"], op["inputs"], op["outputs"]))
    match rng.randrange(3):
        case 0 if side:
            del side[rng.randrange(len(side))]
        case 1:
            side.insert(rng.randint(0, len(side)), rng.choice(list(_tensors(document))))
        case _ if side:
            side[rng.randrange(len(side))] = rng.choice(list(_tensors(document)))


def _append(document: Any, rng: random.Random, others: Sequence[bytes]) -> None:
    """Adds an operation of another file behind a tensor."""
    tensors = list(_tensors(document))
    op = rng.choice(json.loads(rng.choice(others))["graph"])
    op["id"] = max(each["id"] for each in document["graph"]) + 1
    shift = max(tensor["id"] for tensor in tensors) + 1
    for tensor in (*op["inputs"], *op["outputs"]):
        tensor["id"] += shift
    if op["inputs"]:
        op["inputs"][rng.randrange(len(op["inputs"]))] = rng.choice(tensors)
    document["graph"].append(op)


def _anything(document: Any, rng: random.Random, others: Sequence[bytes]) -> None:
    """Replaces, drops or repeats any value."""
    place = document
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = rng.choice(keys)
        if not isinstance(place[key], dict | list) or rng.random() < 0.15:
            break
        place = place[key]
    if not isinstance(place, dict | list) or not place:
        return
    if rng.random() < 0.3:
        del place[key]
    else:
        kind = rng.choice(sorted(_VALUES))
        place[key] = rng.choice((_VALUES[kind](rng), None, {}, [[]], 2**64, -1.5))


_MUTATIONS: tuple[Callable[[Any, random.Random, Sequence[bytes]], None], ...] = (
    *(_shape, _shape, _shape, _shape, _dtype, _property, _attribute, _attribute, _attribute, _attribute),
    *(_kind, _kind, _links, _append, _anything),
)
