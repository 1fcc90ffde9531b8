"""``InferenceSession``: ONNX Runtime's, with our operators and with arrays of ``ml_dtypes`` as inputs and outputs.

Importing this module imports ONNX Runtime, so no other module of ortconv imports it at load time.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from ortconv.errors import PluginError
from ortconv.model_io import loading
from ortconv.model_io.function_checks import needs_plugin
from ortconv.runtime import cuda, library, provider, python_ops
from ortconv.runtime.library import Backend
from ortconv.runtime.python_ops_rewrite import rewrite
from ortconv.runtime.saturation import config_entry, make_products_exact

library.import_onnxruntime()  # raises PluginError if it is missing
import onnxruntime  # noqa: E402

__all__ = ["DATA_FOLDER_ENTRY", "InferenceSession"]

DATA_FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"
"""Session config entry: the folder of the external data of a model that is no file."""

_Model = str | os.PathLike[str] | bytes | onnx.ModelProto

_FLOAT8 = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz)
_ML_DTYPES = frozenset(
    kind for kind in vars(ml_dtypes).values() if isinstance(kind, type) and issubclass(kind, np.generic)
)
"""Scalar types that NumPy lacks."""

_STORED = tuple(map(np.dtype, (ml_dtypes.bfloat16, *_FLOAT8)))
"""Those of them whose bits are passed as unsigned integers."""

_PACKED = (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))
"""Types of which ONNX Runtime stores two elements in a byte, the first in the lower half."""

_BY_NAME = {f"tensor({ir.DataType.from_numpy(dtype).name.lower()})": dtype for dtype in (*_STORED, *_PACKED)}
"""ONNX Runtime's names of them."""


class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]  # onnxruntime is an untyped import
    """An ``onnxruntime.InferenceSession`` that executes the operators of ``org.ortconv``.

    Arguments and methods are those of the base class, with these additions. `run` takes and returns arrays of
    ``ml_dtypes.bfloat16``, of its float8 types and of its int4 and uint4.

    Int8 products are exact: on CPUs on which they saturate by default, the session config entry
    ``session.x64quantprecision`` is set to "1", unless it is set already.

    The native library is registered in `sess_options` if those are given; they may have it already, and other libraries
    may be registered before or after. With ``backend="python"``, onnxruntime-extensions is registered in them. If they
    had it before our Python ops were declared, the session uses a copy of the options without other custom operators.

    If the CUDA provider is requested but cannot be used, or fails, that is an error, and so it is if our execution
    provider fails. The base class falls back to other providers; so does this class with ``enable_fallback=1``.

    A session can be pickled, and so passed to other processes, if it was made without `sess_options`: the pickle holds
    the path of the model, or the model itself if that was given.

    The model need not be trusted: it is refused, before ONNX Runtime reads it, if it refers to files outside its own
    folder, holds a function in the place of an operator of ours, or is malformed in other ways.

    Args:
        model_or_path: Path of a model file, a serialized model, or an ``onnx.ModelProto`` of any size.
        sess_options: An ``onnxruntime.SessionOptions``.
        providers: As in the base class.
        provider_options: As in the base class.
        backend: "native" executes our operators by the native library; "python" by their NumPy references, through
            onnxruntime-extensions; "none" by their function bodies. "ep" adds the native library as an execution
            provider, see `ortconv.register_ep`.
        **kwargs: As in the base class.

    Raises:
        CheckError: The model is no ONNX model, or is refused as said above.
        PluginError: A requirement of the backend is missing, the model needs the plugin and `backend` is "none", or the
            CUDA provider cannot be used.
        ValueError: `backend` is unknown, or "ep", and there are `providers`.
    """

    def __init__(
        self,
        model_or_path: _Model,
        sess_options: Any = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        backend: Backend = "native",
        **kwargs: Any,
    ) -> None:
        if backend not in get_args(Backend):
            raise ValueError(f"backend {backend!r} is unknown; allowed: {', '.join(get_args(Backend))}")
        if backend == "ep" and providers is not None:
            raise ValueError("backend 'ep' takes no providers: ONNX Runtime would not use it")
        self._calls: python_ops.Calls | None = None
        self._bound: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        more = {"providers": providers, "provider_options": provider_options, **kwargs}
        self._made_with = {"backend": backend, **more}
        self._unpicklable = (
            "onnxruntime.SessionOptions does not"
            if sess_options is not None
            else "its model is rewritten for this process"
            if backend == "python"
            else ""
        )
        on_gpu = cuda.is_requested(providers) and not more.setdefault("enable_fallback", 0)
        if backend == "ep":
            more.setdefault("enable_fallback", 0)
        if on_gpu:
            cuda.load_libraries(onnxruntime)
        self._create(model_or_path, sess_options, backend, more)
        self._special_outputs = frozenset(output.name for output in self.get_outputs() if output.type in _BY_NAME)
        if on_gpu:
            cuda.require(self.get_providers())

    def _create(self, model_or_path: _Model, sess_options: Any, backend: Backend, more: dict[str, Any]) -> None:
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        model = _validated(model_or_path, options)
        if backend == "python":
            self._create_with_python_ops(_own(model_or_path, model), sess_options, more)
            return
        lacks_bodies = model is not None and needs_plugin(model)
        del model  # which may be large, and ONNX Runtime reads it again
        source = self._loadable(model_or_path) if isinstance(model_or_path, onnx.ModelProto) else model_or_path
        if backend == "native":
            library.register(options)
            super().__init__(source, options, **more)
            return
        if backend == "ep":
            provider.register_ep(options)
        make_products_exact(options)
        try:
            super().__init__(source, options, **more)
        except Exception as error:
            if lacks_bodies:
                raise PluginError(
                    "the model needs the ortconv plugin: it holds operators of org.ortconv without function bodies.",
                    "Use backend='native' or backend='python'.",
                ) from error
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns the model and the arguments, from which a copy is made.

        Raises:
            TypeError: The session was made with options, Python ops, or a model of over 2 GiB that is no file.
        """
        if self._unpicklable:
            raise TypeError(
                f"this session does not pickle: {self._unpicklable}; make one from the model in the other process"
            )
        model = self._model_bytes if self._model_path is None else os.path.abspath(self._model_path)
        return functools.partial(type(self), **self._made_with), (model,)

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Runs the model.

        Args:
            output_names: The outputs wanted; None or empty for all.
            input_feed: Input name to array.
            run_options: An ``onnxruntime.RunOptions``.

        Returns:
            The outputs as NumPy arrays, with ``ml_dtypes`` for types that NumPy lacks.

        Raises:
            PluginError: A node failed with ``backend="python"``; otherwise ONNX Runtime's own exceptions.
            TypeError: An input has a type that ONNX Runtime's Python interface does not support.
        """
        special = any(map(_is_special, input_feed.values())) or self._special_outputs.intersection(
            output_names or self._special_outputs
        )
        if not special and self._calls is None:  # no context and no super(): the smallest runs take 5 us
            return list(onnxruntime.InferenceSession.run(self, output_names, input_feed, run_options))
        with self._collect():
            if not special:
                return list(super().run(output_names, input_feed, run_options))
            names = output_names or [output.name for output in self.get_outputs()]
            values = {name: _to_value(name, data) for name, data in input_feed.items()}
            results = super().run_with_ort_values(names, values, run_options)
        return [_to_array(value) for value in results]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, Any], run_options: Any = None
    ) -> Any:
        """Runs the model as the base class does; with ``backend="python"`` it may raise PluginError."""
        with self._collect():
            return super().run_with_ort_values(output_names, input_dict_ort_values, run_options)

    def run_with_ortvaluevector(self, *args: Any, **kwargs: Any) -> None:
        """Runs the model as the base class does; with ``backend="python"`` it may raise PluginError."""
        with self._collect():
            super().run_with_ortvaluevector(*args, **kwargs)

    def bind(self, input_feed: Mapping[str, Any], device_type: str = "cuda", device_id: int = 0) -> Any:
        """Returns a binding for `run_with_iobinding` with inputs copied to a device and outputs that stay there.

        Args:
            input_feed: Input name to array; ``ml_dtypes`` of 8 and 16 bits are supported.
            device_type: ONNX Runtime's name of the kind of device.
            device_id: The number of the device.

        Raises:
            TypeError: An input has a type that ONNX Runtime's Python interface does not support.
        """
        binding = self.io_binding()
        for name, data in input_feed.items():
            array = np.asarray(data, order="C")
            element: Any = array.dtype
            if _is_special(array):
                element = _element(name, array, _STORED)
                array = array.view(f"u{array.itemsize}")
            value = onnxruntime.OrtValue.ortvalue_from_numpy(array, device_type, device_id)
            binding.bind_input(name, device_type, device_id, element, list(array.shape), value.data_ptr())
            self._bound.setdefault(binding, []).append(value)  # must live as long as the binding that reads it
        for output in self.get_outputs():
            binding.bind_output(output.name, device_type, device_id)
        return binding

    def run_async(self, *args: Any, **kwargs: Any) -> None:
        """Runs the model as the base class does.

        Raises:
            PluginError: The backend is "python", whose failures could not be distinguished from results.
        """
        if self._calls is not None:
            raise PluginError("run_async is not available with backend='python'.", "Use run.")
        super().run_async(*args, **kwargs)

    def _run_python_ops_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        with self._collect():
            super().run_with_iobinding(iobinding, run_options)

    def _collect(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._calls is None else self._calls.collect()

    def _create_with_python_ops(self, model: onnx.ModelProto, sess_options: Any, more: dict[str, Any]) -> None:
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        if options.optimized_model_filepath:
            raise PluginError(
                "optimized_model_filepath cannot be used with backend='python'.",
                "The Python ops in the model work in the session that it is rewritten for, and nowhere else.",
            )
        make_products_exact(options)
        self._calls = python_ops.Calls()
        # An override in the class would add 0.2 us to each run of every backend; the smallest runs take 3 us.
        self.run_with_iobinding = self._run_python_ops_with_iobinding
        rewrite(model, self._calls)
        source = self._loadable(model)
        with self._collect():
            try:
                if sess_options is None:
                    python_ops.register(options)
                super().__init__(source, options, **more)
            except Exception as error:
                if python_ops.PYTHON_DOMAIN not in str(error):
                    raise
                # The given options do not have our Python ops; they may have onnxruntime-extensions.
                options = python_ops.copy_if_extended(options) or options
                python_ops.register(options)
                super().__init__(source, options, **more)

    def _loadable(self, model: onnx.ModelProto) -> str | bytes:
        """Returns the serialized model, or the path of a file where it is too large for a message."""
        data = _serialize(model)
        if data is not None:
            return data
        self._unpicklable = self._unpicklable or "its model exceeds protobuf's 2 GiB"
        folder = tempfile.mkdtemp(prefix="ortconv-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = pathlib.Path(folder) / "model.onnx"
        ir.save(ir.from_proto(model), path, external_data="model.data")
        return os.fspath(path)


def _serialize(model: onnx.ModelProto) -> bytes | None:
    """Returns the message, or None if it exceeds protobuf's 2 GiB."""
    try:
        return bytes(model.SerializeToString())
    except Exception:  # EncodeError or ValueError, depending on protobuf's version
        return None


def _validated(model: _Model, options: Any) -> onnx.ModelProto | None:
    """Returns the model after validation; None if it is in ONNX Runtime's own format.

    Raises:
        CheckError: It is refused, or is no model.
    """
    if isinstance(model, str | os.PathLike):
        return None if loading.is_ort_format(model) else loading.load(model)
    if isinstance(model, bytes):
        if loading.is_ort_format(model):
            return None
        model = loading.parse(model, "the model")
    folder = config_entry(options, DATA_FOLDER_ENTRY)
    loading.validate(model, "the model", folder or "")  # Without an entry, it is the current folder.
    return model


def _own(given: _Model, model: onnx.ModelProto | None) -> onnx.ModelProto:
    """Returns a copy of a validated model that may be changed, with the external data of its file."""
    if model is None:
        raise PluginError("backend='python' takes ONNX models; this one is in a format of ONNX Runtime's own.")
    if isinstance(given, onnx.ModelProto):
        model = copy.deepcopy(given)
    elif not isinstance(given, bytes):
        loading.read_weights(model, given)
    return model


def _is_special(data: object) -> bool:
    return isinstance(data, np.ndarray) and data.dtype.type in _ML_DTYPES


def _to_value(name: str, data: Any) -> Any:
    if isinstance(data, onnxruntime.OrtValue):
        return data
    array = np.asarray(data, order="C")
    if not _is_special(array):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    element = _element(name, array, (*_STORED, *_PACKED))
    bits = _packed(array) if array.dtype in _PACKED else array.view(f"u{array.itemsize}")
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element)


def _element(name: str, array: npt.NDArray[Any], allowed: Sequence[np.dtype[Any]]) -> int:
    """Returns ONNX's number of an input's type, which NumPy lacks.

    Raises:
        TypeError: It is none of those allowed.
    """
    if array.dtype not in allowed:
        stated = ", ".join(map(str, allowed))
        raise TypeError(f"input {name} has type {array.dtype}; allowed beside numpy's own types: {stated}")
    return int(ir.DataType.from_numpy(array.dtype))


def _to_array(value: Any) -> npt.NDArray[Any]:
    dtype = _BY_NAME.get(value.data_type())
    if dtype is None:
        array: npt.NDArray[Any] = value.numpy()
        return array
    # ONNX Runtime converts these types neither to NumPy nor through DLPack; results of `run` lie in host memory.
    shape = value.shape()
    if dtype in _PACKED:
        size = int(np.prod(shape))
        halves = np.frombuffer(ctypes.string_at(value.data_ptr(), (size + 1) // 2) if size else b"", np.uint8)
        signed = 8 if dtype == ml_dtypes.int4 else 0
        nibbles = np.stack([halves & 15, halves >> 4], axis=1).reshape(-1)[:size].astype(np.int8)
        return ((nibbles ^ signed) - signed).astype(dtype).reshape(shape)
    data = ctypes.string_at(value.data_ptr(), dtype.itemsize * int(np.prod(shape))) if 0 not in shape else b""
    return np.frombuffer(bytearray(data), dtype).reshape(shape)


def _packed(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Packs 4-bit elements; the buffer has as many bytes as elements, as ONNX Runtime's Python interface requires."""
    packed = np.frombuffer(ir.Tensor(array).tobytes(), np.uint8)
    buffer = np.zeros(array.shape, np.uint8)
    buffer.reshape(-1)[: packed.size] = packed
    return buffer
