"""Attributes that files hold and OpenVINO's ops do not have: OpenVINO does not see them, and neither do lowerings."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest

from ortconv.api import conversion
from ortconv.converters.openvino import FRONTEND
from ortconv.converters.openvino.reader.ignored_attributes import LEFTOVERS
from ortconv.errors import OrtconvError
from tests.converters.openvino.live import assert_close, run_onnx, run_openvino

_PADS = 'strides="1,1" pads_begin="0,0" pads_end="0,0"'
_POOL = f'{_PADS} kernel="2,2" rounding_type="floor"'
_DETECTION = (
    'background_label_id="0" code_type="caffe.PriorBoxParameter.CENTER_SIZE" keep_top_k="4" nms_threshold="0.5" '
    'confidence_threshold="0.01" share_location="1" top_k="8" normalized="1" variance_encoded_in_target="0"'
)
_PROPOSAL = (
    'base_size="8" pre_nms_topn="4" post_nms_topn="4" nms_thresh="0.5" feat_stride="8" min_size="1" ratio="1" scale="2"'
)
_CELL = 'hidden_size="2"'
_SEQUENCE = f'{_CELL} direction="forward"'

FORMS = [
    ("AvgPool", 1, f'{_POOL} exclude-pad="true"', ["1,1,5,5"]),
    ("AvgPool", 14, f'{_POOL} exclude-pad="true"', ["1,1,5,5"]),
    ("BinaryConvolution", 1, f'{_PADS} dilations="1,1" mode="xnor-popcount" pad_value="0"', ["1,2,5,5", "u1 3,2,2,2"]),
    ("Convolution", 1, f'{_PADS} dilations="1,1"', ["1,2,5,5", "3,2,2,2"]),
    ("ConvolutionBackpropData", 1, f'{_PADS} dilations="1,1"', ["1,2,5,5", "2,3,2,2"]),
    (
        "DeformableConvolution",
        1,
        f'{_PADS} dilations="1,1" group="1" deformable_group="1"',
        ["1,2,4,4", "1,8,3,3", "1,2,2,2"],
    ),
    (
        "DeformableConvolution",
        8,
        f'{_PADS} dilations="1,1" group="1" deformable_group="1"',
        ["1,2,4,4", "1,8,3,3", "1,2,2,2"],
    ),
    ("DetectionOutput", 1, f'{_DETECTION} num_classes="2"', ["1,8", "1,4", "1,2,8"]),
    ("DetectionOutput", 8, _DETECTION, ["1,8", "1,4", "1,2,8"]),
    (
        "ExperimentalDetectronROIFeatureExtractor",
        6,
        'output_size="2" sampling_ratio="2" pyramid_scales="4,8" aligned="0"',
        ["2,4", "1,2,8,8", "1,2,4,4"],
    ),
    ("GRUCell", 3, _CELL, ["1,3", "1,2", "6,3", "6,2", "6"]),
    ("GRUSequence", 5, _SEQUENCE, ["1,4,3", "1,1,2", "i32 1", "1,6,3", "1,6,2", "1,6"]),
    ("GroupConvolution", 1, f'{_PADS} dilations="1,1"', ["1,2,5,5", "2,1,1,2,2"]),
    ("GroupConvolutionBackpropData", 1, f'{_PADS} dilations="1,1"', ["1,2,5,5", "2,1,1,2,2"]),
    ("LSTMCell", 1, _CELL, ["1,3", "1,2", "1,2", "8,3", "8,2", "8"]),
    ("LSTMCell", 4, _CELL, ["1,3", "1,2", "1,2", "8,3", "8,2", "8"]),
    ("LSTMSequence", 5, _SEQUENCE, ["1,4,3", "1,1,2", "1,1,2", "i32 1", "1,8,3", "1,8,2", "1,8"]),
    ("MaxPool", 1, _POOL, ["1,1,5,5"]),
    ("MaxPool", 8, f'{_POOL} dilations="1,1" index_element_type="i64" axis="2"', ["1,1,5,5"]),
    ("MaxPool", 14, f'{_POOL} dilations="1,1" index_element_type="i64" axis="2"', ["1,1,5,5"]),
    ("PriorBox", 1, 'min_size="2" offset="0.5" variance="0.1"', ["i64 2", "i64 2"]),
    ("PriorBox", 8, 'min_size="2" offset="0.5" variance="0.1"', ["i64 2", "i64 2"]),
    ("PriorBoxClustered", 1, 'width="2" height="3" offset="0.5" variance="0.1"', ["i64 2", "i64 2"]),
    ("Proposal", 1, _PROPOSAL, ["1,2,3,3", "1,4,3,3", "3"]),
    ("Proposal", 4, _PROPOSAL, ["1,2,3,3", "1,4,3,3", "3"]),
    ("RNNCell", 1, _CELL, ["1,3", "1,2", "2,3", "2,2", "2"]),
    ("RNNSequence", 5, _SEQUENCE, ["1,4,3", "1,1,2", "i32 1", "1,2,3", "1,2,2", "1,2"]),
]
"""Every form of the ops in `LEFTOVERS`: type, opset, data, and the inputs as type and shape, f32 by default."""


@pytest.mark.parametrize(("type", "opset", "data", "inputs"), FORMS, ids=lambda value: str(value)[:40])
def test_openvino_does_not_see_them_either(write_ir: Any, type: str, opset: int, data: str, inputs: list[str]) -> None:
    names = [name for name, last in LEFTOVERS[type].items() if opset <= last]
    assert names
    parameters = [given.rpartition(" ")[::2] for given in inputs]
    precisions = [element or "f32" for element, _ in parameters]
    ports = [(index, "", shape) for index, (_, shape) in enumerate(parameters)]
    layers = [
        write_ir.layer(
            index,
            "Parameter",
            data=f'element_type="{element}" shape="{shape}"',
            outputs=[(0, f'precision="{element.upper().replace("F32", "FP32")}"', shape)],
        )
        for index, (element, (_, shape)) in enumerate(zip(precisions, parameters, strict=True))
    ]
    edges = [write_ir.edge(index, 0, 90, index) for index in range(len(inputs))]
    result = write_ir.layer(91, "Result", inputs=[(0, "", "1")])

    def read(more: str) -> tuple[dict[str, Any], Any]:
        layer = write_ir.layer(
            90,
            type,
            name="it",
            opset=f"opset{opset}",
            data=data + more,
            inputs=ports,
            outputs=[(9, 'precision="FP32"', "1")],
        )
        path = write_ir([*layers, layer, result], [*edges, write_ir.edge(90, 9, 91, 0)], version=10)
        (theirs,) = [op for op in openvino.Core().read_model(path).get_ops() if op.get_friendly_name() == "it"]
        (ours,) = FRONTEND.read(path, {}).nodes
        return theirs.get_attributes(), ours.attributes

    plain = read("")
    assert not set(names) & set(plain[0])
    assert read("".join(f' {name}="0"' for name in names)) == plain


def test_every_form_is_tested() -> None:
    last = {op: max(opset for other, opset, *_ in FORMS if other == op) for op in LEFTOVERS}
    assert last == {op: max(names.values()) for op, names in LEFTOVERS.items()}


def test_an_op_that_has_the_attribute_keeps_it(write_ir: Any) -> None:
    path = write_ir(
        [
            write_ir.layer(
                0, "Parameter", data='element_type="f32" shape="1,1,5,5"', outputs=[(0, 'precision="FP32"', "1,1,5,5")]
            ),
            write_ir.layer(
                1,
                "AvgPool",
                opset="opset16",
                data=f'{_POOL} exclude-pad="true" dilations="2,2"',
                inputs=[(0, "", "1,1,5,5")],
                outputs=[(1, 'precision="FP32"', "1,1,3,3")],
            ),
            write_ir.layer(2, "Result", inputs=[(0, "", "1,1,3,3")]),
        ],
        [write_ir.edge(0, 0, 1, 0), write_ir.edge(1, 1, 2, 0)],
    )
    (node,) = FRONTEND.read(path, {}).nodes
    assert node.attributes["dilations"] == "2,2"


def test_a_detector_as_model_optimizer_wrote_it_in_2020(write_ir: Any) -> None:
    """Layers with the attributes that they had then: no padding mode, numbers for booleans, leftovers."""
    f32, i64 = 'precision="FP32"', 'precision="I64"'
    random = np.random.default_rng(0)
    constants = {
        10: random.normal(size=(8, 3, 3, 3)).astype(np.float32),
        11: np.array([4, 4], np.int64),
        12: np.array([64, 64], np.int64),
        13: np.array([0], np.int64),
        14: np.array([1, 128], np.int64),
    }
    layers = [
        write_ir.layer(0, "Parameter", data='element_type="f32" shape="1,3,8,8"', outputs=[(0, f32, "1,3,8,8")]),
        write_ir.layer(1, "Parameter", data='element_type="f32" shape="1,64"', outputs=[(0, f32, "1,64")]),
    ]
    offset = 0
    for number, array in constants.items():
        shape, kind = ",".join(map(str, array.shape)), "i64" if array.dtype == np.int64 else "f32"
        data = f'element_type="{kind}" offset="{offset}" shape="{shape}" size="{array.nbytes}"'
        layers.append(write_ir.layer(number, "Const", data=data, outputs=[(1, i64 if kind == "i64" else f32, shape)]))
        offset += array.nbytes
    steps = [
        (
            "Convolution",
            'dilations="1,1" output_padding="0,0" pads_begin="1,1" pads_end="1,1" strides="2,2"',
            [(0, 0, "1,3,8,8"), (10, 1, "8,3,3,3")],
            "1,8,4,4",
        ),
        ("Reshape", 'special_zero="True"', [(20, 9, "1,8,4,4"), (14, 1, "2")], "1,128"),
        (
            "PriorBox",
            'aspect_ratio="" clip="0" density="" fixed_ratio="" fixed_size="" flip="1" img_h="0" img_size="0" '
            'img_w="0" max_size="40.0" min_size="24.0" offset="0.5" step="16.0" step_h="0" step_w="0" '
            'variance="0.1,0.1,0.2,0.2"',
            [(11, 1, "2"), (12, 1, "2")],
            "2,128",
        ),
        ("Unsqueeze", "", [(22, 9, "2,128"), (13, 1, "1")], "1,2,128"),
        (
            "DetectionOutput",
            'background_label_id="0" code_type="caffe.PriorBoxParameter.CENTER_SIZE" confidence_threshold="0.2" '
            'eta="1.0" input_height="1" input_width="1" keep_top_k="20" nms_threshold="0.45" normalized="1" '
            'num_classes="2" share_location="1" top_k="40" variance_encoded_in_target="0" visualize="False"',
            [(21, 9, "1,128"), (1, 0, "1,64"), (23, 9, "1,2,128")],
            "1,1,20,7",
        ),
    ]
    edges = []
    for number, (op, data, inputs, shape) in enumerate(steps, 20):
        ports = [(index, "", given) for index, (_, _, given) in enumerate(inputs)]
        layers.append(write_ir.layer(number, op, data=data, inputs=ports, outputs=[(9, f32, shape)]))
        edges += [write_ir.edge(source, port, number, index) for index, (source, port, _) in enumerate(inputs)]
    layers.append(write_ir.layer(30, "Result", inputs=[(0, "", "1,1,20,7")]))
    weights = b"".join(array.tobytes() for array in constants.values())
    path = write_ir(layers, [*edges, write_ir.edge(24, 9, 30, 0)], weights, version=10)

    feed = [random.normal(size=(1, 3, 8, 8)).astype(np.float32), random.random((1, 64)).astype(np.float32)]
    ((actual,),) = run_onnx(conversion(path), [feed])
    ((expected,),) = run_openvino(openvino.Core().read_model(path), [feed])
    assert (expected[0, 0, :, 0] == 0).sum() > 5, "there are boxes to compare"
    assert_close(actual, expected, 8)


UNKNOWN = [
    ("MaxPool", 1, _POOL, ["1,1,5,5"], ["axis", "index_element_type", "foo"]),
    ("Pad", 1, 'pad_mode="constant"', ["1,1,5,5", "i64 4", "i64 4"], ["pad_value", "axis"]),
    ("ReLU", 1, "", ["1,1,5,5"], ["alpha"]),
    ("Convolution", 1, f'{_PADS} dilations="1,1"', ["1,2,5,5", "3,2,2,2"], ["axis", "pad_value"]),
]


@pytest.mark.parametrize(("type", "opset", "data", "inputs", "names"), UNKNOWN, ids=[case[0] for case in UNKNOWN])
def test_other_attributes_are_ignored(
    write_ir: Any, type: str, opset: int, data: str, inputs: list[str], names: list[str]
) -> None:
    """With one warning for each kind of them, as OpenVINO ignores them."""
    sizes = [given.rpartition(" ")[2] for given in inputs]
    kinds = ["i64" if given.startswith("i64") else "f32" for given in inputs]
    precisions = [f'precision="{"I64" if kind == "i64" else "FP32"}"' for kind in kinds]
    arrays = [
        np.ones([int(size) for size in shape.split(",")], np.int64 if kind == "i64" else np.float32)
        for shape, kind in zip(sizes, kinds, strict=True)
    ]
    ports = [(index, "", shape) for index, shape in enumerate(sizes)]

    def read(more: str) -> tuple[dict[str, Any], list[np.ndarray], tuple[str, ...]]:
        layers = [
            write_ir.layer(
                0, "Parameter", data=f'element_type="f32" shape="{sizes[0]}"', outputs=[(0, precisions[0], sizes[0])]
            )
        ]
        offset = 0
        for index in range(1, len(inputs)):
            stated = (
                f'element_type="{kinds[index]}" shape="{sizes[index]}" offset="{offset}" size="{arrays[index].nbytes}"'
            )
            layers.append(write_ir.layer(index, "Const", data=stated, outputs=[(0, precisions[index], sizes[index])]))
            offset += arrays[index].nbytes
        edges = []
        for number in (80, 81):
            layers += [
                write_ir.layer(
                    number,
                    type,
                    name=f"it{number}",
                    opset=f"opset{opset}",
                    data=data + more,
                    inputs=ports,
                    outputs=[(9, 'precision="FP32"', "-1,-1,-1,-1")],
                ),
                write_ir.layer(number + 10, "Result", inputs=[(0, "", "-1,-1,-1,-1")]),
            ]
            edges += [write_ir.edge(index, 0, number, index) for index in range(len(inputs))]
            edges.append(write_ir.edge(number, 9, number + 10, 0))
        path = write_ir(layers, edges, b"".join(array.tobytes() for array in arrays[1:]))
        source = openvino.Core().read_model(path)
        theirs = next(op for op in source.get_ops() if op.get_friendly_name() == "it80").get_attributes()
        converted = conversion(path)
        feed = [np.arange(arrays[0].size, dtype=np.float32).reshape(arrays[0].shape)]
        results = run_onnx(converted, [feed])[0]
        for mine, other in zip(results, run_openvino(source, [feed])[0], strict=True):
            assert_close(mine, other, 4)
        return theirs, results, converted.warnings

    plain, results, warnings = read("")
    assert not warnings
    again, others, warnings = read("".join(f' {name}="7"' for name in names))
    assert again == plain
    for mine, other in zip(results, others, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert sorted(text.rpartition("attribute ")[2].split()[0] for text in warnings) == sorted(names)


_READ_POOL = {"strides": "1,2", "pads_begin": "0,1", "pads_end": "1,0", "kernel": "2,2"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            ("strides", text)
            for text in ("1,2,", "1.0,2.0", "1.9,2.9", "1,2x", "1e1,2", "1_0,2", " 1 ,2", "1 2,2", "01,2")
        ),
        *(
            ("strides", text)
            for text in ("1,2, ", "1,2,,", "1,,2", ",1,2", "+1,2", "x,2", ".5,2", "1;2", "", " ", "٣,2")
        ),
        *(("pads_end", text) for text in ("1,0,", "1.5,0.5", "+1,0", "1,-")),
    ],
)
def test_numbers_are_read_as_openvino_reads_them(write_ir: Any, name: str, text: str) -> None:
    data = " ".join(f'{key}="{value}"' for key, value in (_READ_POOL | {name: text}).items())
    path = write_ir(
        [
            write_ir.layer(
                0, "Parameter", data='element_type="f32" shape="1,1,6,9"', outputs=[(0, 'precision="FP32"', "1,1,6,9")]
            ),
            write_ir.layer(
                1,
                "MaxPool",
                data=f'{data} rounding_type="floor"',
                inputs=[(0, "", "1,1,6,9")],
                outputs=[(1, 'precision="FP32"', "-1,-1,-1,-1")],
            ),
            write_ir.layer(2, "Result", inputs=[(0, "", "-1,-1,-1,-1")]),
        ],
        [write_ir.edge(0, 0, 1, 0), write_ir.edge(1, 1, 2, 0)],
        b"",
    )
    try:
        source = openvino.Core().read_model(path)
    except RuntimeError:
        with pytest.raises(OrtconvError):
            conversion(path)
        return
    feed = [np.arange(54, dtype=np.float32).reshape(1, 1, 6, 9)]
    (mine,), (theirs,) = run_onnx(conversion(path), [feed])[0], run_openvino(source, [feed])[0]
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("size", [11, 12, 13, 16, 17])
def test_constants_may_state_more_bytes_than_they_have(write_ir: Any, size: int) -> None:
    """As long as the file has them."""
    path = write_ir(
        [
            write_ir.layer(0, "Parameter", data='element_type="f32" shape="3"', outputs=[(0, 'precision="FP32"', "3")]),
            write_ir.layer(
                1,
                "Const",
                data=f'element_type="f32" shape="3" offset="0" size="{size}"',
                outputs=[(0, 'precision="FP32"', "3")],
            ),
            write_ir.layer(2, "Add", inputs=[(0, "", "3"), (1, "", "3")], outputs=[(2, 'precision="FP32"', "3")]),
            write_ir.layer(3, "Result", inputs=[(0, "", "3")]),
        ],
        [write_ir.edge(0, 0, 2, 0), write_ir.edge(1, 0, 2, 1), write_ir.edge(2, 2, 3, 0)],
        np.arange(4, dtype=np.float32).tobytes(),
    )
    feed = [np.array([5, 6, 7], np.float32)]
    if 12 <= size <= 16:
        (mine,), (theirs,) = (
            run_onnx(conversion(path), [feed])[0],
            run_openvino(openvino.Core().read_model(path), [feed])[0],
        )
        np.testing.assert_array_equal(mine, theirs)
        return
    with pytest.raises(RuntimeError):
        openvino.Core().read_model(path)
    with pytest.raises(OrtconvError):
        conversion(path)
