"""Registers the native library as an execution provider of ONNX Runtime, which takes standard nodes, too."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ortconv.errors import PluginError
from ortconv.runtime import library
from ortconv.runtime.saturation import config_entry, make_products_exact

__all__ = ["REPORT_OPTION", "Claim", "ep_name", "read_report", "register_ep"]

_REGISTRATION = "ortconv"
"""The name under which the library is registered in the process."""

_MARK = "ortconv.ep"
"""Session config entry by which options are known to have the provider."""

REPORT_OPTION = "report"
"""Option of the provider: the file to which it appends a line for each node that it looks at."""

_OPTIONS = ("claim_all", "fuse", REPORT_OPTION)


def ep_name() -> str:
    """Returns the name of the execution provider, as in ``onnxruntime.OrtEpDevice.ep_name``."""
    return "OrtconvExecutionProvider"


def register_ep(session_options: Any, options: Mapping[str, str] | None = None) -> None:
    """Adds the execution provider to an ``onnxruntime.SessionOptions``, in front of ONNX Runtime's CPU provider.

    Sessions with these options execute on the CPU, natively, what the library computes faster: ConvTranspose with what
    surrounds it, Fourier transforms, and the operators of ``org.ortconv``. The model is not changed. All other nodes
    are executed by ONNX Runtime's CPU provider, with whose memory and threads it works. Adding it twice is harmless.
    Sessions must not be given `providers` of their own, which ONNX Runtime takes in place of those in the options.

    This does what ``onnxruntime.register_execution_provider_library("ortconv", ortconv.library_path())`` and
    ``session_options.add_provider_for_devices`` do, with the devices whose ``ep_name`` is `ep_name`.

    Args:
        session_options: The options, which are changed; any number of sessions may share them.
        options: Options of the provider; None for default ones, or those that it was added with. "fuse" = "0": every
            node is executed by itself, so that a model that ONNX Runtime optimized can be saved. "claim_all" = "1":
            nodes are taken also where ONNX Runtime is estimated to be faster. "report": a file to which a line of JSON
            is appended for each node that is looked at.

    Raises:
        PluginError: ONNX Runtime is missing or too old, or it cannot load the library.
        TypeError: `session_options` is not an ``onnxruntime.SessionOptions``.
        ValueError: An option is unknown, or the options have the provider with other ones.
    """
    onnxruntime = library.import_onnxruntime()
    if not isinstance(session_options, onnxruntime.SessionOptions):
        raise TypeError(f"register_ep takes an onnxruntime.SessionOptions, not a {type(session_options).__name__}")
    given = dict(options or {})
    for name in given:
        if name not in _OPTIONS:
            raise ValueError(f"option {name!r} is unknown; allowed: {', '.join(_OPTIONS)}")
    mark = f"{id(session_options)} {json.dumps(given, sort_keys=True)}"
    found = config_entry(session_options, _MARK) or ""
    if found.startswith(f"{id(session_options)} "):  # a copy of options has the entry, too, with the id of the original
        if options is None or found == mark:
            return
        raise ValueError(f"the session options have {ep_name()} already, with other options")
    devices = _devices(onnxruntime)
    try:
        session_options.add_provider_for_devices(devices[:1], given)
    except Exception as error:  # ONNX Runtime's own exception classes have no common base
        raise PluginError(f"ONNX Runtime {onnxruntime.__version__} cannot use {ep_name()}: {error}") from error
    make_products_exact(session_options)
    session_options.add_session_config_entry(_MARK, mark)


def _devices(onnxruntime: Any) -> list[Any]:
    """Returns the devices of the provider; registers the library unless the process has done it under any name."""

    def found() -> list[Any]:
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == ep_name()]

    devices = found()
    if devices:
        return devices
    path = library.library_path()
    try:
        onnxruntime.register_execution_provider_library(_REGISTRATION, path)
    except Exception as error:  # As above.
        raise PluginError(f"ONNX Runtime {onnxruntime.__version__} cannot load {path}: {error}") from error
    devices = found()
    if not devices:
        raise PluginError(f"ONNX Runtime {onnxruntime.__version__} finds no CPU for {ep_name()}.")
    return devices


@dataclasses.dataclass(frozen=True)
class Claim:
    """What became of a node that the provider looked at.

    Attributes:
        node: Its name, or that of its first output.
        op_type: Its operator, with the domain unless that is ONNX's.
        fused: Neighbours that were fused with it.
        kept: Neighbours that were not, and why.
        reason: Why the node stays with ONNX Runtime; "" where it is claimed.
    """

    node: str
    op_type: str
    fused: Sequence[str] = ()
    kept: Sequence[str] = ()
    reason: str = ""


def read_report(file: str | os.PathLike[str]) -> list[Claim]:
    """Returns what the provider did in a session with the option REPORT_OPTION, by nodes; nothing without a file.

    ONNX Runtime asks the provider several times. What it claims is not asked about again; of the rest, the last answer
    counts.
    """
    path = pathlib.Path(file)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    claims: dict[tuple[str, str], Claim] = {}
    for entry in map(json.loads, lines):
        op_type = f"{entry['domain']}.{entry['op_type']}" if entry["domain"] else entry["op_type"]
        claim = Claim(entry["node"], op_type, tuple(entry["fused"]), tuple(entry["kept"]), entry["reason"])
        claims[claim.node, claim.op_type] = claim
    return list(claims.values())
