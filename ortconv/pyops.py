"""Our operators executed by the numpy oracle inside a real ONNX Runtime session, through onnxruntime-extensions.

For platforms without the native library, and for checking it. A model is rewritten in memory: each node of
``org.ortconv`` becomes, in the domain ``org.ortconv.py``, a Python op that works in the node's accumulation type,

    X, W, B --Cast--> Python op --data, shape--> Reshape --CastLike--> Y

so that one Python op per op and accumulation type serves every element type. Converting the sums to Y's type is left to
ONNX Runtime's Cast, which rounds once, to nearest even, and keeps the low bits of integers.

onnxruntime-extensions ends the process on a Python exception, on an output that does not fit a buffer of the caller's
(hence the flat data and the Reshape), and on float16. It also passes uint64 through a type that does not hold it, so
those bits travel as int64.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import threading
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper
import onnx.inliner
from onnx import TensorProto

from ortconv import reference
from ortconv.errors import PluginError, shown
from ortconv.opset import ACCUMULATION, DOMAIN, OPS, Op

__all__ = ["PYTHON_DOMAIN", "Calls", "copy_if_extended", "import_extensions", "register", "rewrite"]

PYTHON_DOMAIN = f"{DOMAIN}.py"

_OLDEST_OPSET = 15  # CastLike
_CARRIERS = {
    accumulation: TensorProto.INT64 if accumulation == TensorProto.UINT64 else accumulation
    for accumulation in ACCUMULATION.values()
}
"""Accumulation type -> the type in which numbers travel to and from the Python op."""

_OPS = {(DOMAIN, op.name): op for op in OPS}

_CALLS: weakref.WeakValueDictionary[int, Calls] = weakref.WeakValueDictionary()
_KEYS = itertools.count()
_DECLARING = threading.Lock()
_declared = False


class Calls:
    """What went wrong in the Python ops of one session; their exceptions cannot pass through ONNX Runtime.

    Attributes:
        key: Names this object in the attributes of the rewritten nodes.
    """

    def __init__(self) -> None:
        self.key = next(_KEYS)
        self._turn = threading.Lock()
        self._failure: BaseException | None = None
        _CALLS[self.key] = self

    def fail(self, failure: BaseException) -> None:
        """Keeps the first failure of a run."""
        if self._failure is None:
            self._failure = failure

    @property
    def failed(self) -> bool:
        """Whether a node of this run has failed, so that what follows it has no meaning."""
        return self._failure is not None

    @contextlib.contextmanager
    def collect(self) -> Iterator[None]:
        """Surrounds one run of the session, or its creation, and raises what went wrong in it.

        Creation counts because ONNX Runtime may run nodes there to fold constants. Runs of one session take turns, so
        that each raises its own failure; the interpreter's lock leaves little to gain from overlapping them.

        Raises:
            PluginError: A Python op failed, whatever ONNX Runtime made of that; the cause is the op's own exception.
        """
        with self._turn:
            try:
                yield
            except Exception:
                if self._failure is None:
                    raise
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure


def import_extensions() -> ModuleType:
    """Imports onnxruntime-extensions, which is an optional dependency.

    Raises:
        PluginError: It is not installed.
    """
    try:
        import onnxruntime_extensions
    except ImportError as error:
        raise PluginError(
            f"onnxruntime-extensions cannot be imported: {error}.", 'Install it with pip install "ortconv[pyops]".'
        ) from error
    module: ModuleType = onnxruntime_extensions
    return module


def rewrite(model: onnx.ModelProto, calls: Calls) -> None:
    """Replaces the nodes of ``org.ortconv`` by Python ops, in subgraphs and model-local functions too.

    Names, types and shapes of inputs and outputs stay. Functions that hold such nodes are inlined, because the ops
    take their attributes as one string, which cannot refer to a function's attributes.

    Args:
        model: The model, which is changed.
        calls: Where failures go.

    Raises:
        PluginError: A node of ours contradicts its schema, or the model's opset is too old.
    """
    kept = [function for function in model.functions if (function.domain, function.name) not in _OPS]
    del model.functions[:]
    model.functions.extend(kept)
    while holders := [(f.domain, f.name) for f in model.functions if any(map(_is_ours, _nodes(f.node)))]:
        model.CopyFrom(onnx.inliner.inline_selected_functions(model, holders, exclude=False))
    if not any(map(_is_ours, _nodes(model.graph.node))):
        return
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < _OLDEST_OPSET:
        raise PluginError(
            f"the model imports opset {opset} of ai.onnx; allowed for Python ops: {_OLDEST_OPSET} or newer."
        )
    _rewrite_graph(model.graph, {}, calls)
    model.opset_import.append(onnx.helper.make_opsetid(PYTHON_DOMAIN, 1))


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
    """Returns a copy of session options that have onnxruntime-extensions, or None where they do not.

    ONNX Runtime copies everything but the custom operators.
    """
    import onnxruntime

    # An op that every build of onnxruntime-extensions has tells, and the session that loads it hands out the copy.
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("NegPos", ["x"], ["n", "p"], domain="ai.onnx.contrib")],
        "probe",
        [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "np"],
    )
    imports = [onnx.helper.make_opsetid("", _OLDEST_OPSET), onnx.helper.make_opsetid("ai.onnx.contrib", 1)]
    probe = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
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


def _nodes(nodes: Any) -> Iterator[onnx.NodeProto]:
    """All nodes, those of subgraphs included."""
    for node in nodes:
        yield node
        for graph in _subgraphs(node):
            yield from _nodes(graph.node)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def _is_ours(node: onnx.NodeProto) -> bool:
    return (node.domain, node.op_type) in _OPS


def _rewrite_graph(graph: onnx.GraphProto, outer: dict[str, int], calls: Calls) -> None:
    """Rewrites a graph; `outer` holds the element types, where declared, of the values of the graphs around it."""
    types = outer | {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in itertools.chain(graph.input, graph.output, graph.value_info):
        types[value.name] = value.type.tensor_type.elem_type
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for subgraph in _subgraphs(node):
            _rewrite_graph(subgraph, types, calls)
        nodes.extend(_python_nodes(node, types, calls) if _is_ours(node) else [node])
    del graph.node[:]
    graph.node.extend(nodes)


def _python_nodes(node: onnx.NodeProto, types: dict[str, int], calls: Calls) -> list[onnx.NodeProto]:
    """Returns what replaces one node of ours."""
    op = _OPS[node.domain, node.op_type]
    names = [*node.input, *[""] * (len(op.inputs) - len(node.input))]
    accumulation, task = _task(node, op, names, types)
    carrier = _CARRIERS[accumulation]
    prefix = f"{PYTHON_DOMAIN}/{node.output[0]}"
    make = onnx.helper.make_node
    result, inputs = [], []
    for formal, name in zip(op.inputs, names, strict=True):
        if formal == "output_shape":
            inputs.append(name)
        elif name:
            inputs.append(f"{prefix}/{formal}")
            result.append(make("Cast", [name], inputs[-1:], to=carrier))
        else:
            inputs.append(f"{prefix}/{formal}")
            result.append(make("Constant", [], inputs[-1:], value=onnx.helper.make_tensor("", carrier, [0], [])))
    flat, sums = [f"{prefix}/data", f"{prefix}/shape"], f"{prefix}/sums"
    op_type = _op_type(len(op.inputs), carrier)
    text = json.dumps(task | {"calls": calls.key})
    result += [
        make(op_type, inputs, flat, name=node.name, domain=PYTHON_DOMAIN, task=text),
        make("Reshape", flat, [sums], allowzero=1),
        make("CastLike", [sums, names[0]], list(node.output)),
    ]
    for new in result:
        new.metadata_props.extend(node.metadata_props)
    return result


def _task(node: onnx.NodeProto, op: Op, names: list[str], types: dict[str, int]) -> tuple[int, dict[str, Any]]:
    """Checks a node against its schema and returns its accumulation type, and what its Python op is to do."""
    subject = f"{DOMAIN}.{op.name} {shown(node.name or node.output[0])}"
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    declared = {name for name, _, _ in op.attributes}
    for name in declared ^ attributes.keys():
        problem = "is missing" if name in declared else f"is unknown; allowed: {', '.join(sorted(declared))}"
        raise PluginError(f"{subject}: attribute {name} {problem}.")
    if len(names) > len(op.inputs) or not all(names[:-1]):
        raise PluginError(f"{subject}: has the inputs {names}; allowed: {', '.join(op.inputs[:-1])}, and optionally B.")
    accumulation = attributes.pop("accumulation_type")
    element = types.get(names[0], 0)
    allowed = {ACCUMULATION.get(element)} if element else set(_CARRIERS)
    if accumulation not in allowed:
        raise PluginError(
            f"{subject}: attribute accumulation_type = {accumulation} is not allowed; "
            f"allowed for X of type {_type_name(element)}: {', '.join(map(str, sorted(filter(None, allowed))))}."
        )
    for formal, name in zip(op.inputs, names, strict=True):
        found = types.get(name, 0)
        if element and found and found != element and formal != "output_shape":
            raise PluginError(
                f"{subject}: {formal} has type {_type_name(found)}; allowed: {_type_name(element)}, as X has."
            )
    plain = {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}
    return accumulation, {
        "op": op.name,
        "subject": subject,
        "bias": bool(names[-1]),
        "accumulation_type": accumulation,
        "attributes": plain,
    }


def _type_name(element: int) -> str:
    return TensorProto.DataType.Name(element).lower() if element else "unknown"


def _op_type(inputs: int, carrier: int) -> str:
    """The Python op for a number of inputs, of which the third of four is the output shape, and a carrier."""
    return f"Convolution{inputs}_{_type_name(carrier)}"


def _declare(extensions: ModuleType) -> None:
    """Declares all Python ops, once per process and before any of them is registered."""
    global _declared
    with _DECLARING:
        if _declared:
            return
        types = extensions.PyCustomOpDef
        for carrier in sorted(set(_CARRIERS.values())):
            number = getattr(types, f"dt_{_type_name(carrier)}")
            for inputs in ([number, number, number], [number, number, types.dt_int64, number]):
                extensions.onnx_op(
                    op_type=f"{PYTHON_DOMAIN}::{_op_type(len(inputs), carrier)}",
                    inputs=inputs,
                    outputs=[number, types.dt_int64],
                    attrs={"task": types.dt_string},
                )(_Compute(onnx.helper.tensor_dtype_to_np_dtype(carrier)))
        _declared = True


class _Output(np.ndarray[Any, Any]):
    """A flat array whose list is made beforehand.

    onnxruntime-extensions asks for ``flatten().tolist()`` where an exception, such as an interrupt that arrives while
    the list is made, would end the process.
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
    """The body of a Python op: executes a task and never raises."""

    carrier: np.dtype[Any]

    def __call__(self, *inputs: npt.NDArray[Any], task: str) -> tuple[_Output, _Output]:
        calls = None
        try:
            wanted = json.loads(task)
            calls = _CALLS.get(wanted["calls"])
            if calls is None or not calls.failed:
                data = self._execute(wanted, *inputs)
                return _output(data), _output(np.array(data.shape, np.int64))
        except Exception as error:
            if calls is not None:
                failure = PluginError(f"{wanted['subject']}: {error}")
                failure.__cause__ = error
                calls.fail(failure)
        except BaseException as error:  # an interrupt, which goes on once it is out of ONNX Runtime
            if calls is not None:
                calls.fail(error)
        return _output(np.zeros(0, self.carrier)), _output(np.zeros(inputs[0].ndim, np.int64))

    def _execute(self, task: Any, *inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        sums = onnx.helper.tensor_dtype_to_np_dtype(task["accumulation_type"])
        shape = inputs[2:-1]
        x, w, bias = (data.view(sums) for data in (inputs[0], inputs[1], inputs[-1]))
        function = reference.FUNCTIONS[task["op"]]
        result = function(x, w, *shape, bias if task["bias"] else None, **task["attributes"])
        return result.view(self.carrier)
