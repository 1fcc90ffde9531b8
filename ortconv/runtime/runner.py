"""Runs ONNX models in ONNX Runtime on NumPy arrays of any type, with every failure as an ``OrtconvError``."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ortconv.errors import ExecutionError, OrtconvError, PluginError, in_utf8
from ortconv.model_io.input_data import Array, Input
from ortconv.runtime import cuda, library, provider
from ortconv.runtime.choices import CHOICES_ENTRY
from ortconv.runtime.library import Backend
from ortconv.runtime.saturation import are_exact

__all__ = ["Model", "Profile"]

_RUNTIME = "ONNX Runtime"
_STATES_KEY = "ortconv.states"
_SHARED = "Attempt to replace the existing tensor"
"""Its message if it would convert int8 weights to uint8 twice."""

_TYPES = {
    "float": ir.DataType.FLOAT,
    "double": ir.DataType.DOUBLE,
    **{
        f"{sign}int{bits}": ir.DataType[f"{sign.upper()}INT{bits}"] for sign in ("", "u") for bits in (4, 8, 16, 32, 64)
    },
    **{name: ir.DataType[name.upper()] for name in ("bool", "float16", "bfloat16")},
    **{name: ir.DataType[name.upper()] for name in ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")},
}
"""ONNX Runtime's name of an element type -> the type."""


@dataclasses.dataclass(frozen=True)
class Profile:
    """Where a session with a profiler writes.

    Attributes:
        folder: An existing folder.
    """

    folder: pathlib.Path

    @property
    def optimized_model(self) -> pathlib.Path:
        """The model that ONNX Runtime runs, its weights in another file."""
        return self.folder / "optimized.onnx"


class Model:
    """A model loaded in ONNX Runtime.

    Args:
        model: The file, or the model itself.
        name: The model's name in messages.
        backend: What executes nodes of ours.
        providers: Execution providers, best first; the CPU provider by default. With the backend "ep" it comes after
            ours, and others are not allowed.
        folder: The folder of the external data of a model that is no file.
        threads: How many threads may work on a node; 0 for ONNX Runtime's default.
        tf32: Whether a GPU may multiply float32 in TF32.
        int8_kernels: Whether ONNX Runtime may fuse QDQ patterns into int8 kernels, as it does by default.
        choices: The file to which the native library writes what computes each convolution; see
            `ortconv.runtime.choices`.
        profile: Where ONNX Runtime's profiler writes, if it is to measure.
        ep_options: Options of the execution provider, with the backend "ep"; see `ortconv.register_ep`.

    Attributes:
        inputs: The inputs.
        outputs: Names of the outputs.

    Raises:
        ExecutionError: ONNX Runtime cannot load the model.
        PluginError: The backend, or the CUDA provider, cannot be used.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | onnx.ModelProto,
        name: str,
        *,
        backend: Backend = "native",
        providers: Sequence[str] = ("CPUExecutionProvider",),
        folder: str | os.PathLike[str] | None = None,
        threads: int = 0,
        tf32: bool = False,
        int8_kernels: bool = True,
        choices: str | os.PathLike[str] | None = None,
        profile: Profile | None = None,
        ep_options: Mapping[str, str] | None = None,
    ) -> None:
        from ortconv.runtime.session import DATA_FOLDER_ENTRY, InferenceSession

        if isinstance(model, str | os.PathLike) and in_utf8(os.fspath(model)) != os.fspath(model):
            raise ExecutionError(name, _RUNTIME, "cannot load the model: its name is not UTF-8.")
        onnxruntime = library.import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # Failures are raised.
        options.intra_op_num_threads = threads
        if folder is not None:
            options.add_session_config_entry(DATA_FOLDER_ENTRY, os.fspath(folder))
        options.add_session_config_entry(cuda.TF32_ENTRY, str(int(tf32)))
        if choices is not None:
            options.add_session_config_entry(CHOICES_ENTRY, os.fspath(choices))
        if not int8_kernels:
            options.add_session_config_entry("session.disable_quant_qdq", "1")
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = os.fspath(profile.folder / "profile")
            options.optimized_model_filepath = os.fspath(profile.optimized_model)
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
        self._name = name
        self._on_gpu = cuda.is_requested(providers)
        chosen: Any = [(each, {"use_tf32": int(tf32)} if each == cuda.PROVIDER else {}) for each in providers]
        if backend == "ep":
            if self._on_gpu:
                raise PluginError(f"{provider.ep_name()} computes on the CPU and excludes {cuda.PROVIDER}.")
            provider.register_ep(options, ep_options)
            chosen = None
        try:
            self._session: Any = InferenceSession(model, options, providers=chosen, backend=backend)
        except OrtconvError:
            raise
        except Exception as error:  # ONNX Runtime's own exception classes have no common base.
            raise ExecutionError(name, _RUNTIME, f"cannot load the model: {error}", _hint(error, options)) from error
        states = _states(self._session.get_modelmeta().custom_metadata_map)
        self.inputs = tuple(self._input(declared, states) for declared in self._session.get_inputs())
        self.outputs = tuple(output.name for output in self._session.get_outputs())

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the model.

        Args:
            feeds: An array of the declared type for every input.

        Returns:
            The outputs by name.

        Raises:
            ExecutionError: ONNX Runtime reports a failure.
        """
        try:
            results = self._session.run(self.outputs, dict(feeds))
        except OrtconvError:
            raise
        except Exception as error:  # As above.
            raise ExecutionError(self._name, _RUNTIME, f"fails: {error}") from error
        return {name: np.asarray(array) for name, array in zip(self.outputs, results, strict=True)}

    def repeatable(self, feeds: Mapping[str, Array]) -> Callable[[], object]:
        """Returns a function that runs the model on the same data and drops the results, for measurements.

        On a GPU, inputs and outputs stay in its memory, and the function returns when the GPU has finished. It may
        raise what `run` raises.
        """
        if not self._on_gpu:
            return lambda: self.run(feeds)
        binding = self._session.bind(feeds)

        def run() -> None:
            try:
                self._session.run_with_iobinding(binding)
                binding.synchronize_outputs()
            except Exception as error:  # As above.
                raise ExecutionError(self._name, _RUNTIME, f"fails: {error}") from error

        return run

    def end_profiling(self) -> pathlib.Path:
        """Ends the measurements that `profile` asked for, and returns the profiler's JSON file."""
        return pathlib.Path(self._session.end_profiling())

    def _input(self, declared: Any, states: Mapping[str, str]) -> Input:
        name = declared.type.removeprefix("tensor(").removesuffix(")")
        if name not in _TYPES:
            raise ExecutionError(self._name, _RUNTIME, f"input {declared.name} has type {declared.type}; numbers only.")
        shape = tuple(dim if isinstance(dim, int) else dim or None for dim in declared.shape)
        return Input(declared.name, _TYPES[name], shape, states.get(declared.name))


def _states(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns the inputs that are states, and the output of each one's next value, from a model's metadata."""
    try:
        return {str(each["input"]): str(each["output"] or "") for each in json.loads(metadata.get(_STATES_KEY, "[]"))}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}  # Written by another tool, or damaged: only default values of states are lost.


def _hint(error: Exception, options: Any) -> str:
    """Returns a hint for a model that ONNX Runtime loads on other CPUs only, or ""."""
    if _SHARED not in str(error) or not are_exact(options):
        return ""
    return (
        "On this CPU, ONNX Runtime's int8 products saturate unless it converts int8 weights to uint8, which it cannot "
        "do for weights or zero points that nodes share: convert the source again, or give each node its own."
    )
