"""Files of tensors (``--tensors FILE.npz``) for a graph whose constants they hold."""

from __future__ import annotations

import io
import pathlib
import random
import re
import warnings
import zipfile
from collections.abc import Sequence

import numpy as np

from ortconv import onednn
from ortconv.api import conversion
from ortconv.cli.files import read_npy, read_npz
from tests.fuzz import values

__all__ = ["SUFFIX", "mutate", "run"]

SUFFIX = ".npz"

_TYPES = ("f32", "f16", "bf16", "s8", "s4", "f8_e4m3")
_DESCRIPTIONS = ("<f4", ">f4", "<f2", "|i1", "|O", "<U3", "|V2", "<c8", "<M8[s]", "|b1", "<f9", "", "\u00e9", "|V0")


def _graph() -> onednn.Graph:
    """Returns a graph with a constant of each of some types, by name, and by id the first."""
    graph = onednn.Graph("constants")
    for number, dtype in enumerate(_TYPES):
        shape = [2, None] if number % 2 else [2, 3]
        tensor = graph.tensor(dtype, dtype, shape, constant=True)
        if dtype == "s4":
            graph.op("DynamicDequantize", [tensor, graph.tensor("scale", "f32", [1])], qtype="per_tensor")
        elif dtype in ("s8", "f8_e4m3"):
            graph.op("Dequantize", [tensor], scales=[0.5], zps=[0], qtype="per_tensor")
        else:
            graph.op("ReLU", [tensor])
    return graph


def run(data: bytes, folder: pathlib.Path) -> None:
    """Reads a file, and converts the graph with what it holds."""
    path = folder / "tensors.npz"
    path.write_bytes(data)
    if data[:6] == b"\x93NUMPY":
        read_npy(path)
    conversion(_graph(), tensors=read_npz(path))


def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes | None:
    """Changes members, their names and their headers, or returns None where the file is no archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()[:16]]
    except (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, OSError, zipfile.LargeZipFile):
        return None
    except Exception:  # what zlib and others raise for a damaged archive
        return None
    for _ in range(rng.choice((1, 1, 2, 3))):
        index = rng.randrange(len(members) + 1)
        if index == len(members):
            members.append((rng.choice((*_TYPES, "0", "1", "x", "", "\u00e9")) + ".npy", _npy(rng)))
            continue
        name, content = members[index]
        match rng.randrange(5):
            case 0:
                members[index] = rng.choice((*_TYPES, "0", "7", "", "/", "..", "\u00e9")) + ".npy", content
            case 1:
                members[index] = name, _npy(rng)
            case 2:
                members[index] = name, content[: rng.randrange(len(content) + 1)]
            case _:
                members[index] = name, _header(content, rng)
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w") as archive:
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, content in members:
            archive.writestr(name, content, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    changed = bytearray(made.getvalue())
    if rng.random() < 0.1:
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _npy(rng: random.Random) -> bytes:
    """Returns an array that fits a constant, or nearly."""
    shape = (2, 3) if rng.random() < 0.8 else tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 4)))
    dtype = rng.choice(("<f4", ">f4", "<f2", "i1", "u1", "bool", "<i8"))
    made = io.BytesIO()
    np.lib.format.write_array(made, np.full(shape, rng.choice((0, 1)), np.dtype(dtype)))
    return made.getvalue()


def _header(content: bytes, rng: random.Random) -> bytes:
    """Changes the description of an array, which is text."""
    choice = rng.randrange(4)
    if choice == 0:
        shape = str(tuple(values.size(rng) for _ in range(rng.randint(0, 4)))).encode()
        return re.sub(rb"\([0-9, ]*\)", shape, content, count=1)
    if choice == 1:
        return re.sub(rb"'[<>|][^']*'", repr(rng.choice(_DESCRIPTIONS)).encode(), content, count=1)
    if choice == 2:
        return content.replace(b"False", rng.choice((b"True", b"2", b"[[", b"")), 1)
    return content[:6] + bytes([rng.choice((0, 1, 2, 3, 9))]) + content[7:]
