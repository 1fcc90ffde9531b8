"""Files of version 10 that state sizes known at run time only; OpenVINO, which infers them itself, is the judge."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino
import pytest

from ortconv.api import conversion
from tests.converters.openvino.live import Feed, assert_close, run_onnx, run_openvino

_PRECISIONS = {"f32": "FP32", "i64": "I64", "boolean": "BOOL"}


class _Model:
    """Writes layers as Model Optimizer does: constants behind output port 1, no precision at inputs."""

    def __init__(self, writer: Any) -> None:
        self._write = writer
        self._layers: list[str] = []
        self._edges: list[str] = []
        self._weights = b""
        self._shapes: list[tuple[str, str]] = []

    def add(
        self,
        type: str,
        shape: str,
        *inputs: int,
        data: str = "",
        opset: int = 1,
        element: str = "f32",
        more: Sequence[str] = (),
    ) -> int:
        """Adds a layer that states shapes, one for each output; returns its id."""
        number = len(self._layers)
        ports = [(index, "", self._shapes[source][0]) for index, source in enumerate(inputs)]
        precision = f'precision="{_PRECISIONS[element]}"'
        outputs = [(len(inputs) + index, precision, each) for index, each in enumerate([shape, *more])]
        if type == "Parameter":
            data = f'element_type="{element}" shape="{shape}"'
        self._layers.append(
            self._write.layer(number, type, opset=f"opset{opset}", data=data, inputs=ports, outputs=outputs)
        )
        self._edges += [
            self._write.edge(source, int(self._shapes[source][1]), number, index) for index, source in enumerate(inputs)
        ]
        self._shapes.append((shape, str(len(inputs))))
        return number

    def constant(self, array: np.ndarray) -> int:
        """Adds a constant."""
        shape, element = ",".join(map(str, array.shape)), "i64" if array.dtype == np.int64 else "f32"
        data = f'element_type="{element}" offset="{len(self._weights)}" shape="{shape}" size="{array.nbytes}"'
        self._weights += array.tobytes()
        return self.add("Const", shape, data=data, element=element)

    def path(self, *results: int) -> pathlib.Path:
        """Writes the file."""
        for source in results:
            shape, port = self._shapes[source]
            number = len(self._layers)
            self._layers.append(self._write.layer(number, "Result", inputs=[(0, "", shape)]))
            self._edges.append(self._write.edge(source, int(port), number, 0))
        return self._write(self._layers, self._edges, self._weights or b"\0", version=10)


def _check(path: pathlib.Path, feed: Feed) -> list[np.ndarray]:
    (actual,), (expected,) = run_onnx(conversion(path), [feed]), run_openvino(openvino.Core().read_model(path), [feed])
    for mine, other in zip(actual, expected, strict=True):
        assert_close(mine.astype(other.dtype), other, 4)  # OpenVINO gives 64-bit results of version 10 in 32 bits
    return actual


def test_what_is_found(write_ir: Any) -> None:
    model = _Model(write_ir)
    data = model.add("Parameter", "2,3")
    found = model.add("NonZero", "2,6", data, data='output_type="i64"', opset=3, element="i64")
    transposed = model.add("Transpose", "6,2", found, model.constant(np.array([1, 0])), element="i64")
    values = model.add("GatherND", "6", data, transposed, data='batch_dims="0"', opset=5)
    doubled = model.add("Multiply", "6", values, model.constant(np.float32([2])))
    squashed = model.add("Sigmoid", "6", doubled)
    size = model.add("ShapeOf", "1", squashed, data='output_type="i64"', opset=3, element="i64")
    longer = model.add("Concat", "2", size, model.constant(np.array([2])), data='axis="0"', element="i64")
    tiled = model.add("Broadcast", "6,2", model.constant(np.float32([[1]])), longer, data='mode="numpy"', opset=3)
    last = model.add("Squeeze", "", size, model.constant(np.array([0])), element="i64")
    ends = [model.constant(np.array(each)) for each in (8, 1)]
    rest = model.add("Range", "2", last, *ends, data='output_type="i64"', opset=4, element="i64")
    total = model.add("ReduceSum", "", tiled, model.constant(np.array([0, 1])), data='keep_dims="False"')
    path = model.path(transposed, squashed, longer, tiled, total, rest)
    results = _check(path, [np.float32([[1, 0, 2], [0, 0, 3]])])
    assert [result.shape for result in results] == [(3, 2), (3,), (2,), (3, 2), (), (5,)]


def test_what_is_kept_of_boxes(write_ir: Any) -> None:
    model = _Model(write_ir)
    boxes, scores = model.add("Parameter", "1,4,4"), model.add("Parameter", "1,1,4")
    limits = [model.constant(np.array(each)) for each in (np.int64(4), np.float32(0.5), np.float32(0.3))]
    attributes = 'box_encoding="corner" output_type="i64" sort_result_descending="1"'
    kept = model.add(
        "NonMaxSuppression", "4,3", boxes, scores, *limits, data=attributes, opset=5, element="i64", more=["4,3", "1"]
    )
    columns = [model.constant(np.array([each])) for each in (2, 1)]
    index = model.add("Gather", "4,1", kept, columns[0], model.constant(np.array(1)), element="i64")
    flat = model.add("Reshape", "4", index, model.constant(np.array([-1])), data='special_zero="True"', element="i64")
    chosen = model.add("Gather", "1,4,4", boxes, flat, columns[1])
    size = model.add("ShapeOf", "3", chosen, data='output_type="i64"', opset=3, element="i64")
    corners = np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [5, 5, 6, 6], [8, 8, 9, 9]]])
    results = _check(model.path(kept, chosen, size), [corners, np.float32([[[0.9, 0.8, 0.7, 0.1]]])])
    assert [result.tolist() for result in results[::2]] == [[[0, 0, 0], [0, 0, 2]], [1, 2, 4]]


_LOOP = """<layer id="3" name="loop" type="Loop" version="opset5">
<input><port id="0"><dim>1</dim></port><port id="1"/><port id="2"><dim>1</dim><dim>2</dim></port></input>
<output><port id="3" precision="FP32"><dim>1</dim><dim>2</dim></port>
<port id="4" precision="FP32"><dim>{stack}</dim><dim>1</dim><dim>2</dim></port></output>
<port_map>
<input external_port_id="1" internal_layer_id="0"/><input external_port_id="2" internal_layer_id="2"/>
<output external_port_id="-1" internal_layer_id="1" purpose="execution_condition"/>
<output external_port_id="3" internal_layer_id="5"/><output axis="0" external_port_id="4" internal_layer_id="8"/>
</port_map>
<back_edges><edge from-layer="1" from-port="0" to-layer="0" to-port="0"/>
<edge from-layer="5" from-port="0" to-layer="2" to-port="0"/></back_edges>
<body><layers>
<layer id="0" name="on" type="Parameter" version="opset1"><data element_type="boolean" shape=""/>
<output><port id="0" precision="BOOL"/></output></layer>
{condition}
<layer id="1" name="on/sink" type="Result" version="opset1"><input><port id="0"/></input></layer>
<layer id="2" name="a" type="Parameter" version="opset1"><data element_type="f32" shape="1,2"/>
<output><port id="0" precision="FP32"><dim>1</dim><dim>2</dim></port></output></layer>
<layer id="4" name="sum" type="Add" version="opset1">
<input><port id="0"><dim>1</dim><dim>2</dim></port><port id="1"><dim>1</dim><dim>2</dim></port></input>
<output><port id="2" precision="FP32"><dim>1</dim><dim>2</dim></port></output></layer>
<layer id="5" name="sum/sink" type="Result" version="opset1">
<input><port id="0"><dim>1</dim><dim>2</dim></port></input></layer>
<layer id="6" name="axis" type="Const" version="opset1"><data element_type="i64" offset="9" shape="1" size="8"/>
<output><port id="1" precision="I64"><dim>1</dim></port></output></layer>
<layer id="7" name="part" type="Unsqueeze" version="opset1">
<input><port id="0"><dim>1</dim><dim>2</dim></port><port id="1"><dim>1</dim></port></input>
<output><port id="2" precision="FP32"><dim>{stack}</dim><dim>1</dim><dim>2</dim></port></output></layer>
<layer id="8" name="part/sink" type="Result" version="opset1">
<input><port id="0"><dim>{stack}</dim><dim>1</dim><dim>2</dim></port></input></layer>
</layers><edges>
{edges}
<edge from-layer="2" from-port="0" to-layer="4" to-port="0"/>
<edge from-layer="2" from-port="0" to-layer="4" to-port="1"/>
<edge from-layer="4" from-port="2" to-layer="5" to-port="0"/>
<edge from-layer="4" from-port="2" to-layer="7" to-port="0"/>
<edge from-layer="6" from-port="1" to-layer="7" to-port="1"/>
<edge from-layer="7" from-port="2" to-layer="8" to-port="0"/>
</edges></body></layer>
"""
"""A Loop that doubles ``a`` and stacks it, as Model Optimizer wrote it."""

_KEEPS_ON = ("", '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>')
_STOPS = (
    '<layer id="9" name="ten" type="Const" version="opset1"><data element_type="f32" offset="17" shape="" size="4"/>'
    '<output><port id="1" precision="FP32"/></output></layer>'
    '<layer id="10" name="all" type="ReduceMax" version="opset1"><data keep_dims="False"/>'
    '<input><port id="0"><dim>1</dim><dim>2</dim></port><port id="1"><dim>2</dim></port></input>'
    '<output><port id="2" precision="FP32"/></output></layer>'
    '<layer id="11" name="axes" type="Const" version="opset1">'
    '<data element_type="i64" offset="21" shape="2" size="16"/>'
    '<output><port id="1" precision="I64"><dim>2</dim></port></output></layer>'
    '<layer id="12" name="less" type="Less" version="opset1"><input><port id="0"/><port id="1"/></input>'
    '<output><port id="2" precision="BOOL"/></output></layer>',
    '<edge from-layer="4" from-port="2" to-layer="10" to-port="0"/>'
    '<edge from-layer="11" from-port="1" to-layer="10" to-port="1"/>'
    '<edge from-layer="10" from-port="2" to-layer="12" to-port="0"/>'
    '<edge from-layer="9" from-port="1" to-layer="12" to-port="1"/>'
    '<edge from-layer="12" from-port="2" to-layer="1" to-port="0"/>',
)


@pytest.mark.parametrize(
    ("trips", "stack", "condition", "runs"),
    [
        pytest.param(4, 4, _KEEPS_ON, 4, id="as often as a constant says"),
        pytest.param(None, 1, _KEEPS_ON, 3, id="as often as an input says"),
        pytest.param(9, 9, _STOPS, 4, id="until the body stops it"),
    ],
)
def test_what_a_loop_stacks(
    write_ir: Any, trips: int | None, stack: int, condition: tuple[str, str], runs: int
) -> None:
    count = 'element_type="i64" shape="1"'
    first = write_ir.layer(0, "Parameter", data=count, outputs=[(1, 'precision="I64"', "1")])
    if trips is not None:
        first = write_ir.layer(0, "Const", data=f'{count} offset="0" size="8"', outputs=[(1, 'precision="I64"', "1")])
    layers = [
        first,
        write_ir.layer(
            1,
            "Const",
            data='element_type="boolean" offset="8" shape="" size="1"',
            outputs=[(1, 'precision="BOOL"', "")],
        ),
        write_ir.layer(2, "Parameter", data='element_type="f32" shape="1,2"', outputs=[(1, 'precision="FP32"', "1,2")]),
        _LOOP.format(stack=stack, condition=condition[0], edges=condition[1]),
        write_ir.layer(
            4,
            "ShapeOf",
            opset="opset3",
            data='output_type="i32"',
            inputs=[(0, "", f"{stack},1,2")],
            outputs=[(1, 'precision="I32"', "3")],
        ),
        write_ir.layer(5, "Result", inputs=[(0, "", "1,2")]),
        write_ir.layer(6, "Result", inputs=[(0, "", f"{stack},1,2")]),
        write_ir.layer(7, "Result", inputs=[(0, "", "3")]),
    ]
    edges = [write_ir.edge(*each) for each in ((0, 1, 3, 0), (1, 1, 3, 1), (2, 1, 3, 2), (3, 4, 4, 0))]
    edges += [write_ir.edge(*each) for each in ((3, 3, 5, 0), (3, 4, 6, 0), (4, 1, 7, 0))]
    numbers = np.array([trips or 0, 0, 0, 1])
    weights = numbers[:1].tobytes() + b"\1" + numbers[1:2].tobytes() + np.float32(10).tobytes() + numbers[2:].tobytes()
    feed = [np.float32([[1, -1]])] if trips is not None else [np.array([runs]), np.float32([[1, -1]])]
    last, stacked, shape = _check(write_ir(layers, edges, weights, version=10), feed)
    np.testing.assert_array_equal(last, np.float32([[1, -1]]) * 2**runs)
    assert stacked.shape == tuple(shape) == (runs, 1, 2)


def test_other_contradictions_give_way_to_what_the_inputs_say(write_ir: Any) -> None:
    model = _Model(write_ir)
    path = model.path(model.add("ReLU", "2,4", model.add("Parameter", "2,3")))
    (theirs,) = openvino.Core().read_model(path).outputs
    (ours,) = conversion(path).model.graph.outputs
    assert ours.shape is not None
    assert ours.shape.numpy() == tuple(theirs.shape) == (2, 3)
