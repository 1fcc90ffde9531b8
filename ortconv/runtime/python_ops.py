"""Our operators executed by their NumPy references in ONNX Runtime sessions, through onnxruntime-extensions.

For platforms without the native library, and for checking it. `python_ops_rewrite` replaces a model's nodes by the
Python ops declared here. These take and return accumulation types. onnxruntime-extensions passes all of them on
unchanged except uint64, whose bits are passed as int64.

onnxruntime-extensions ends the process when a Python op raises. So an op stores its exception and returns an empty
result, and `Calls.collect`, around each run of the session, raises what was stored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import json
import threading
import weakref
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper
import onnx.parser
from onnx import TensorProto

from ortconv.errors import PluginError
from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import Formal, Operator
from ortconv.opset.ops import BY_NAME, OPERATORS

__all__ = [
    "PYTHON_DOMAIN",
    "Calls",
    "carrier",
    "copy_if_extended",
    "import_extensions",
    "is_integer_input",
    "op_type",
    "python_inputs",
    "register",
]

PYTHON_DOMAIN = f"{DOMAIN}.py"

_ARRAYS_OF_RESULT = 2
"""Arrays of 8 bytes per element that onnxruntime-extensions allocates for the result of a Python op."""

_CALLS: weakref.WeakValueDictionary[int, Calls] = weakref.WeakValueDictionary()
_KEYS = itertools.count()
_DECLARING = threading.Lock()
_declared = False


class Calls:
    """Collects the failures of one session's Python ops, whose exceptions cannot pass through ONNX Runtime.

    Attributes:
        key: Identifies this object in the attributes of the rewritten nodes.
    """

    def __init__(self) -> None:
        self.key = next(_KEYS)
        self._turn = threading.Lock()
        self._failure: BaseException | None = None
        _CALLS[self.key] = self

    def fail(self, failure: BaseException) -> None:
        """Stores the first failure of a run."""
        if self._failure is None:
            self._failure = failure

    @property
    def failed(self) -> bool:
        """Whether a node of this run has failed, so that results behind it are meaningless."""
        return self._failure is not None

    @contextlib.contextmanager
    def collect(self) -> Iterator[None]:
        """Surrounds one run of the session, or its creation, and raises its failure.

        Creation counts because ONNX Runtime may run nodes then to fold constants. Runs of one session take turns, so
        that each raises its own failure; because of the interpreter's lock, overlapping runs would hardly be faster.

        Raises:
            PluginError: A Python op failed, even if ONNX Runtime reports success; the cause is the op's exception.
        """
        with self._turn:
            failure = None
            try:
                yield
            except Exception:
                if self._failure is None:
                    raise
            finally:
                failure, self._failure = self._failure, None
            if failure is not None:
                raise failure


def import_extensions() -> ModuleType:
    """Imports onnxruntime-extensions, which is an optional dependency.

    Raises:
        PluginError: It is not installed.
    """
    try:
        return importlib.import_module("onnxruntime_extensions")
    except ImportError as error:
        raise PluginError(
            f"onnxruntime-extensions cannot be imported: {error}.", 'Install it with pip install "ortconv[pyops]".'
        ) from error


def register(session_options: Any) -> None:
    """Registers onnxruntime-extensions, and with it our Python ops, in an ``onnxruntime.SessionOptions``.

    The options must not have onnxruntime-extensions yet: ONNX Runtime refuses sessions whose options have it twice.

    Raises:
        PluginError: onnxruntime-extensions is not installed.
    """
    extensions = import_extensions()
    _declare(extensions)
    session_options.register_custom_ops_library(extensions.get_library_path())


def copy_if_extended(session_options: Any) -> Any | None:
    """Returns a copy of session options that have onnxruntime-extensions, or None if they do not.

    ONNX Runtime copies everything except custom operators.
    """
    import onnxruntime

    # A session with an op of every build of onnxruntime-extensions loads only with it, and returns the copy.
    probe = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 15, "ai.onnx.contrib": 1]>
        probe (float[1] x) => (float[1] n, float[1] p) { n, p = ai.onnx.contrib.NegPos(x) }
    """).SerializeToString()
    written = {"enable_profiling": False, "optimized_model_filepath": ""}  # files that the probe must not write
    wanted = {name: getattr(session_options, name) for name in written}
    try:
        for name, value in written.items():
            setattr(session_options, name, value)
        copy = onnxruntime.InferenceSession(probe, session_options).get_session_options()
    except Exception:  # ONNX Runtime's own exception classes have no common base
        return None
    finally:
        for name, value in wanted.items():
            setattr(session_options, name, value)
    for name, value in wanted.items():
        setattr(copy, name, value)
    return copy


def carrier(accumulation: int) -> int:
    """Returns the type in which values of an accumulation type are passed to and from a Python op."""
    return TensorProto.INT64 if accumulation == TensorProto.UINT64 else accumulation


def python_inputs(operator: Operator) -> list[Formal]:
    """Returns the formal inputs that a Python op takes: all that its epilogue does not read alone."""
    outside = operator.epilogue.inputs if operator.epilogue else ()
    return [each for each in operator.inputs if each.name not in outside]


def is_integer_input(operator: Operator, formal: Formal) -> bool:
    """Returns whether an input holds sizes or indices, which a Python op takes as they are."""
    return operator.types[formal.type].elements == (TensorProto.INT64,)


def op_type(operator: Operator, accumulation: int) -> str:
    """Returns the type of the Python op that executes an operator in an accumulation type."""
    return f"{operator.name}_{TensorProto.DataType.Name(carrier(accumulation)).lower()}"


def _declare(extensions: ModuleType) -> None:
    """Declares all Python ops, once per process and before any of them is registered."""
    global _declared
    with _DECLARING:
        if _declared:
            return
        types = extensions.PyCustomOpDef
        for operator in OPERATORS:
            for element in sorted({carrier(each) for each in operator.accumulation.values()}):
                number = getattr(types, f"dt_{TensorProto.DataType.Name(element).lower()}")
                extensions.onnx_op(
                    op_type=f"{PYTHON_DOMAIN}::{op_type(operator, element)}",
                    inputs=[
                        types.dt_int64 if is_integer_input(operator, each) else number
                        for each in python_inputs(operator)
                    ],
                    outputs=[number, types.dt_int64],
                    attrs={"task": types.dt_string},
                )(_Compute(operator.name, onnx.helper.tensor_dtype_to_np_dtype(element)))
        _declared = True


class _Output(np.ndarray[Any, Any]):
    """A flat array with a list of its elements that exists before it is asked for.

    onnxruntime-extensions calls ``flatten().tolist()`` in a place where an exception, such as an interrupt that arrives
    during the conversion, ends the process. So does memory that runs out there, in the array that it makes of the list.
    """

    _list: list[Any]

    def flatten(self, order: Any = "C") -> Any:
        return self

    def tolist(self) -> Any:
        return self._list


def _output(data: npt.NDArray[Any]) -> _Output:
    flat = data.reshape(-1).view(_Output)
    flat._list = data.reshape(-1).tolist()
    return flat


@dataclasses.dataclass(frozen=True)
class _Compute:
    """The implementation of a Python op, which never raises."""

    operator: str
    carrier: np.dtype[Any]

    def __call__(self, *inputs: npt.NDArray[Any], task: str) -> tuple[_Output, _Output]:
        calls = None
        try:
            wanted = json.loads(task)
            calls = _CALLS.get(wanted["calls"])
            if calls is None or not calls.failed:
                data = self._execute(wanted, inputs)
                result = _output(data)
                np.empty(_ARRAYS_OF_RESULT * data.size, np.float64)  # raises here what would end the process later
                return result, _output(np.array(data.shape, np.int64))
        except Exception as error:
            if calls is not None:
                failure = PluginError(f"{wanted['subject']}: {error}")
                failure.__cause__ = error
                calls.fail(failure)
        except BaseException as error:  # an interrupt, which continues once it is out of ONNX Runtime
            if calls is not None:
                calls.fail(error)
        return _output(np.zeros(0, self.carrier)), _output(np.zeros(inputs[0].ndim, np.int64))

    def _execute(self, task: Any, inputs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        operator = BY_NAME[self.operator]
        sums = onnx.helper.tensor_dtype_to_np_dtype(task["sums"])
        given = [
            None if not has else data if is_integer_input(operator, formal) else data.view(sums)
            for formal, data, has in zip(python_inputs(operator), inputs, task["given"], strict=True)
        ]
        reference = operator.epilogue.reference if operator.epilogue else operator.reference
        return reference(*given, **task["attributes"]).view(self.carrier)
