"""Convert OpenVINO IR and oneDNN Graph JSON to ONNX, run the result in ONNX Runtime, and prove that it is right.

Names are imported when they are first used, so that ``import ortconv`` costs nothing and pulls in no runtime.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import version as _version

    from ortconv import onednn
    from ortconv.api import Conversion, conversion, convert
    from ortconv.errors import (
        CheckError,
        ConversionError,
        ConversionErrors,
        ExecutionError,
        InputError,
        ModelFormatError,
        NodeRef,
        OrtconvError,
        PluginError,
        SemanticsWarning,
        ShapeError,
        UnsupportedAttributeError,
        UnsupportedOpError,
        UnsupportedTypeError,
    )
    from ortconv.model_io.checker import check_file as check
    from ortconv.optimizer import Optimization, optimization, optimize
    from ortconv.options import Semantics, Target
    from ortconv.runtime.library import library_path, register
    from ortconv.runtime.provider import ep_name, register_ep
    from ortconv.runtime.session import InferenceSession
    from ortconv.verification import Verification, verify

    __version__ = _version("ortconv")

__all__ = [
    "CheckError",
    "Conversion",
    "ConversionError",
    "ConversionErrors",
    "ExecutionError",
    "InferenceSession",
    "InputError",
    "ModelFormatError",
    "NodeRef",
    "Optimization",
    "OrtconvError",
    "PluginError",
    "Semantics",
    "SemanticsWarning",
    "ShapeError",
    "Target",
    "UnsupportedAttributeError",
    "UnsupportedOpError",
    "UnsupportedTypeError",
    "Verification",
    "__version__",
    "check",
    "conversion",
    "convert",
    "ep_name",
    "library_path",
    "onednn",
    "optimization",
    "optimize",
    "register",
    "register_ep",
    "verify",
]

_HOMES = {
    "Conversion": "ortconv.api:Conversion",
    "InferenceSession": "ortconv.runtime.session:InferenceSession",
    "Optimization": "ortconv.optimizer:Optimization",
    "Semantics": "ortconv.options:Semantics",
    "Target": "ortconv.options:Target",
    "Verification": "ortconv.verification:Verification",
    "check": "ortconv.model_io.checker:check_file",
    "conversion": "ortconv.api:conversion",
    "convert": "ortconv.api:convert",
    "ep_name": "ortconv.runtime.provider:ep_name",
    "library_path": "ortconv.runtime.library:library_path",
    "onednn": "ortconv.onednn",
    "optimization": "ortconv.optimizer:optimization",
    "optimize": "ortconv.optimizer:optimize",
    "register": "ortconv.runtime.library:register",
    "register_ep": "ortconv.runtime.provider:register_ep",
    "verify": "ortconv.verification:verify",
}
"""Where a name lives; the error classes, which are not listed, are in `ortconv.errors`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'ortconv' has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("ortconv")
    else:
        value = pkgutil.resolve_name(_HOMES.get(name, f"ortconv.errors:{name}"))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
