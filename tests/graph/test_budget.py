"""A source of a few hundred bytes costs neither gigabytes nor minutes, whatever numbers it states."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ortconv import onednn
from ortconv.errors import ConversionError
from ortconv.graph.budget import ALLOWED_BYTES, ALLOWED_NODES, BYTES_PER_BYTE, NODES_PER_NODE, Budget
from tests.converters.openvino.one_layer import Declared, write

HUGE = 2**30
WIDE = 2**26
"""Of two axes."""
MEMORY = 1536 << 20
"""Address space of the process that converts, most of which its libraries take."""
SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Case:
    """A file, and what becomes of it.

    Attributes:
        name: What it is called.
        write: Writes it to a path without a suffix and returns the file.
        outcome: What the one error says; None where the file is converted.
    """

    name: str
    write: Callable[[pathlib.Path], pathlib.Path]
    outcome: str | None


def ir(
    name: str,
    kind: str,
    inputs: Sequence[Declared | np.ndarray],
    attributes: Mapping[str, object],
    output: Declared | Sequence[Declared],
    outcome: str | None = None,
    opset: str = "opset1",
) -> Case:
    outputs = [output] if isinstance(output[0], str) else list(output)
    return Case(name, lambda path: write(path.with_suffix(".xml"), kind, inputs, attributes, outputs, opset), outcome)


def graph(
    name: str,
    kind: str,
    inputs: Sequence[Sequence[int]],
    outputs: Sequence[Sequence[int] | None],
    outcome: str | None = None,
    dtype: str = "f32",
    **attributes: Any,
) -> Case:
    def save(path: pathlib.Path) -> pathlib.Path:
        g = onednn.Graph(name)
        tensors = [g.tensor(f"x{number}", "f32", shape) for number, shape in enumerate(inputs)]
        results = [g.tensor(f"y{number}", dtype, shape) for number, shape in enumerate(outputs)]
        g.op(kind, tensors, outputs=results, **attributes)
        g.save(path.with_suffix(".json"))
        return path.with_suffix(".json")

    return Case(name, save, outcome)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


IMAGE: Declared = ("f32", (1, 4, 8, 8))
ROIS: Declared = ("f32", (2, 5))
ROI = {"spatial_scale": "0.5"}
PSROI = {"output_dim": 1, "group_size": WIDE, **ROI}
PATCHES = {"strides": "1,1", "rates": "1,1", "auto_pad": "same_upper"}
PRIOR = {"offset": "0.5", "step": "8", "fixed_size": "32", "fixed_ratio": "1"}
DETECTRON = {"sampling_ratio": 2, "pyramid_scales": "4", "aligned": "false"}

CASES = [
    ir(
        "one_hot",
        "OneHot",
        [("i64", (2,)), np.array(HUGE), np.array(1.0, np.float32), np.array(0.0, np.float32)],
        {"axis": -1},
        ("f32", (2, HUGE)),
    ),
    ir(
        "group_normalization",
        "GroupNormalization",
        [("f32", (1, HUGE, 1)), ("f32", (HUGE,)), ("f32", (HUGE,))],
        {"num_groups": HUGE, "epsilon": "0.1"},
        ("f32", (1, HUGE, 1)),
        opset="opset12",
    ),
    *(
        ir(
            f"roi_pooling_{method}",
            "ROIPooling",
            [IMAGE, ROIS],
            {"pooled_h": HUGE, "pooled_w": 2, "method": method, **ROI},
            ("f32", (2, 4, HUGE, 2)),
            opset="opset2",
        )
        for method in ("max", "bilinear")
    ),
    *(
        ir(
            f"extract_image_patches_{number}",
            "ExtractImagePatches",
            [image],
            {"sizes": sizes, **PATCHES},
            ("f32", shape),
            opset="opset3",
        )
        for number, (image, sizes, shape) in enumerate(
            [
                (IMAGE, f"{HUGE},1", (1, 4 * HUGE, 8, 8)),
                (("f32", (1, 1, HUGE, 1)), "3,1", (1, 3, HUGE, 1)),
            ]
        )
    ),
    ir(
        "prior_box_density",
        "PriorBox",
        [ints(2, 2), ints(16, 16)],
        {**PRIOR, "density": 2**20},
        ("f32", (2, 2**44)),
        f"density = [{2.0**20}] asks for constants",
    ),
    ir(
        "prior_box_no_density",
        "PriorBox",
        [ints(2, 2), ints(16, 16)],
        {**PRIOR, "density": 0},
        ("f32", (2, 0)),
        "attribute density = [0.0]",
    ),
    ir(
        "psroi_pooling_average",
        "PSROIPooling",
        [("f32", (1, 1, 8, 8)), ROIS],
        PSROI,
        ("f32", (2, 1, WIDE, WIDE)),
    ),
    ir(
        "psroi_pooling_bins",
        "PSROIPooling",
        [("f32", (1, HUGE, 8, 8)), ROIS],
        {**PSROI, "group_size": 1, "spatial_bins_x": HUGE, "spatial_bins_y": 1, "mode": "bilinear"},
        ("f32", (2, 1, 1, 1)),
        f"allowed in this conversion: {ALLOWED_NODES + NODES_PER_NODE}",
    ),
    *(
        ir(
            f"{kind}_{number}",
            kind,
            [("f32", (1, 1, size)), ints(goal)],
            {"index_element_type": "i64"} if "Max" in kind else {},
            [("f32", (1, 1, goal)), ("i64", (1, 1, goal))][: 1 + ("Max" in kind)],
            opset="opset8",
        )
        for kind in ("AdaptiveAvgPool", "AdaptiveMaxPool")
        for number, (size, goal) in enumerate([(3, HUGE), (HUGE, 3), (2**16 + 1, 2**16)])
    ),
    ir(
        "gather",
        "Gather",
        [np.zeros((1, 2**15), np.float32), np.zeros(2**16, np.int64), np.array(0)],
        {},
        ("f32", (2**16, 2**15)),
    ),
    ir("tile", "Tile", [np.zeros(4, np.float32), ints(2**40)], {}, ("f32", (2**42,))),
    ir("tile_that_wraps", "Tile", [np.zeros(4, np.float32), ints(2**62)], {}, ("f32", (0,)), "Integer overflow"),
    ir("broadcast", "Broadcast", [np.zeros(1, np.float32), ints(2**40)], {"mode": "numpy"}, ("f32", (2**40,))),
    ir(
        "range",
        "Range",
        [np.array(0), np.array(2**40), np.array(1)],
        {"output_type": "i64"},
        ("i64", (2**40,)),
        opset="opset4",
    ),
    ir(
        "detectron_roi_features",
        "ExperimentalDetectronROIFeatureExtractor",
        [("f32", (2, 4)), IMAGE],
        {**DETECTRON, "output_size": WIDE},
        [("f32", (2, 4, WIDE, WIDE)), ("f32", (2, 4))],
        opset="opset6",
    ),
    ir(
        "roi_align",
        "ROIAlign",
        [IMAGE, ("f32", (2, 4)), ("i64", (2,))],
        {
            "pooled_h": WIDE,
            "pooled_w": WIDE,
            "sampling_ratio": HUGE,
            "mode": "avg",
            "aligned_mode": "asymmetric",
            **ROI,
        },
        ("f32", (2, 4, WIDE, WIDE)),
        opset="opset9",
    ),
    ir(
        "deformable_convolution",
        "DeformableConvolution",
        [("f32", (1, 1, 8, 8)), ("f32", (1, 2**29, 8, 8)), ("f32", (1, 1, 2**14, 2**14))],
        {"strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1", "auto_pad": "same_upper"},
        ("f32", (1, 1, 8, 8)),
        "the kernel = [16384, 16384] asks for constants",
    ),
    graph("interpolate_nearest", "Interpolate", [(1, 1, 3)], [None], mode="nearest", sizes=[HUGE], data_format="NCX"),
    graph("interpolate_linear", "Interpolate", [(1, 1, 3)], [None], mode="linear", sizes=[HUGE], data_format="NCX"),
    graph(
        "interpolate_backward",
        "InterpolateBackward",
        [(1, 1, 2**15), (1, 1, 2**16)],
        [(1, 1, 2**15)],
        mode="linear",
        sizes=[2**16],
        data_format="NCX",
    ),
    graph(
        "group_norm",
        "GroupNorm",
        [(1, HUGE, 1)],
        [None],
        groups=HUGE,
        keep_stats=False,
        use_affine=False,
        data_format="NCX",
    ),
    graph("layer_norm", "LayerNorm", [(1, HUGE)], [None], keep_stats=False, use_affine=False),
    graph("gen_index", "GenIndex", [(HUGE,)], [None], dtype="s32", axis=0),
    graph(
        "average_backward",
        "AvgPoolBackward",
        [(1, 1, 1, 1)],
        [(1, 1, 2**20, 2**20)],
        "asks for constants",
        kernel=[2**20, 2**20],
        strides=[1, 1],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        exclude_pad=False,
        src_shape=[1, 1, 2**20, 2**20],
        data_format="NCX",
    ),
    graph(
        "average_backward_counts",
        "AvgPoolBackward",
        [(1, 1, HUGE)],
        [(1, 1, HUGE)],
        "asks for constants",
        kernel=[1],
        strides=[1],
        pads_begin=[0],
        pads_end=[0],
        exclude_pad=True,
        src_shape=[1, 1, HUGE],
        data_format="NCX",
    ),
]

CHILD = """
import json, resource, sys
from ortconv import api, errors
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
for path in sys.argv[2:]:
    try:
        said = [api.conversion(path).to_proto().ByteSize()]
    except errors.ConversionErrors as group:
        said = [str(error) for error in group.exceptions]
    except errors.OrtconvError as error:
        said = [str(error)]
    except BaseException as error:
        said = [f"{type(error).__name__}: {error}"] * 9
    print(json.dumps(said), flush=True)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """What converting each file says, in one process of little memory."""
    folder = tmp_path_factory.mktemp("files")
    paths = [case.write(folder / case.name) for case in CASES]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(MEMORY), *map(str, paths)], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    return {case.name: json.loads(line) for case, line in zip(CASES, done.stdout.splitlines(), strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_small_file_costs_little(case: Case, said: dict[str, list[object]]) -> None:
    (result,) = said[case.name]
    if case.outcome is None:
        assert isinstance(result, int), result
        assert result < 4 << 20
    else:
        assert case.outcome in str(result)
        assert case.name in str(result)


def test_a_larger_source_may_build_more() -> None:
    small, large = Budget(0), Budget(1000)
    assert small.fits(ALLOWED_BYTES)
    assert not small.fits(ALLOWED_BYTES, 2)
    assert large.fits(ALLOWED_BYTES + 1000 * BYTES_PER_BYTE)
    large.spend(ALLOWED_BYTES)
    assert large.fits(1000 * BYTES_PER_BYTE)
    with pytest.raises(ConversionError, match="needs a constant of 8001 bytes; allowed: 8000 more"):
        large.spend(1000 * BYTES_PER_BYTE + 1)
    with pytest.raises(ConversionError, match=r"depth = 9000 asks for constants of 9000 bytes; allowed: 8000 more"):
        large.arange("depth", 9000, np.int8)
    with pytest.raises(ConversionError, match=r"kernel = \[90, 100\] asks for constants of 9000 bytes"):
        large.full("kernel", (90, 100), 1, np.int8)


def test_nodes_are_counted_for_each_node_of_the_source() -> None:
    budget = Budget(0)
    budget.spend_nodes(ALLOWED_NODES)
    budget.add_node()
    budget.spend_nodes(NODES_PER_NODE)
    with pytest.raises(ConversionError, match="needs more nodes than are allowed in this conversion: 50500"):
        budget.spend_nodes(1)
