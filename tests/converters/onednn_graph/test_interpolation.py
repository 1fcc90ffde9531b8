"""Interpolate and its gradient against the references: modes, formats, ways to say the sizes, types, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ortconv
from ortconv.errors import ConversionErrors
from tests.converters.onednn_graph.one_op import build, check
from tests.converters.onednn_graph.references.call import DTYPES

MODES = ("nearest", "linear", "bilinear", "trilinear")


class Case:
    """One interpolation with everything that decides its result."""

    def __init__(self, mode: str, seed: int) -> None:
        draw = np.random.default_rng([seed, len(mode)])
        spatial = {"bilinear": 2, "trilinear": 3}.get(mode, int(draw.integers(1, 4)))
        self.dtype = str(draw.choice(["f32", "f32", "bf16", "f16"]))
        data_format = str(draw.choice(["NCX", "NXC"]))
        small = draw.integers(1, 9, spatial).astype(np.float32)
        scales = draw.choice([0.5, 2, 1.5, 0.3, 3, 1.7, 1], spatial).astype(np.float32)
        by_scale = np.floor(small * scales).astype(int)
        self.how = str(draw.choice(["sizes", "scales", "constant", "input"])) if by_scale.min() else "sizes"
        large = by_scale if self.how == "scales" else draw.integers(1, 12, spatial)
        coordinates = str(draw.choice(["half_pixel", "align_corners"]))
        self.attributes: dict[str, Any] = {
            "mode": mode,
            "data_format": data_format,
            "coordinate_transformation_mode": coordinates,
        }
        if self.how in ("sizes", "scales"):
            self.attributes |= {"sizes": large.tolist()} if self.how == "sizes" else {"scales": scales.tolist()}
        self.small, self.large = (
            tuple(int(x) for x in ((2, 3, *sizes) if data_format == "NCX" else (2, *sizes, 3)))
            for sizes in (small, large)
        )
        self.sizes = large.astype(np.int32)
        self.dynamic = bool(draw.integers(2))

    def data(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(len(shape)).normal(size=shape).astype(DTYPES[self.dtype])

    def check(self, kind: str, inputs: list[np.ndarray], declared: tuple[int, ...] | None) -> None:
        name = f"x{len(inputs)}"
        told = [self.sizes] if self.how in ("constant", "input") else []
        constants = {name: self.sizes} if self.how == "constant" else {}
        outputs = [(self.dtype, None if self.dynamic else declared)]
        check(kind, [*inputs, *told], outputs, self.attributes, dynamic=self.dynamic, constants=constants)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("mode", MODES)
def test_interpolate(mode: str, seed: int) -> None:
    case = Case(mode, seed)
    case.check("Interpolate", [case.data(case.small)], case.large)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("mode", MODES)
def test_gradient(mode: str, seed: int) -> None:
    case = Case(mode, seed)
    case.check("InterpolateBackward", [case.data(case.small), case.data(case.large)], case.small)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("small", range(1, 25))
def test_halves_round_up_whatever_the_sizes(small: int, dynamic: bool) -> None:
    src = np.arange(small, dtype=np.float32).reshape(1, 1, small)
    for large in (1, 2, 3, 5, 6, 7, 10, 12, 14, 20, 30):
        attributes = {"mode": "nearest", "data_format": "NCX", "sizes": [large]}
        check("Interpolate", [src], [("f32", (1, 1, large))], attributes, dynamic=dynamic, exact=True)


@pytest.mark.parametrize(("small", "scale", "large"), [(10, 0.7, 7), (100, 0.29, 29), (30, 0.9, 27), (49, 1 / 49, 1)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_scales_multiply_in_float32(small: int, scale: float, large: int, dynamic: bool) -> None:
    src = np.zeros((1, 1, small), np.float32)
    attributes = {"mode": "linear", "data_format": "NCX", "scales": [scale]}
    check("Interpolate", [src], [("f32", (1, 1, large))], attributes, dynamic=dynamic)


def test_a_common_upsampling_is_one_node() -> None:
    src = np.zeros((1, 3, 4, 4), np.float32)
    for mode in ("nearest", "bilinear"):
        attributes = {"mode": mode, "data_format": "NCX", "scales": [2.0, 2.0]}
        model = check("Interpolate", [src], [("f32", (1, 3, 8, 8))], attributes)
        assert [node.op_type for node in model.graph.node] == ["Resize"]


X = (1, 3, 4)
REFUSED: list[tuple[str, list[tuple[str, tuple[int, ...]]], dict[str, Any], str]] = [
    ("Interpolate", [("f32", X)], {}, "neither sizes nor scales"),
    ("Interpolate", [("f32", X)], {"sizes": [2, 2]}, "sizes"),
    ("Interpolate", [("f32", X)], {"sizes": [0]}, "sizes"),
    ("Interpolate", [("f32", X)], {"scales": [0.1]}, "scales"),
    ("Interpolate", [("f32", X)], {"scales": [-1.0]}, "scales"),
    ("Interpolate", [("f32", X)], {"scales": [1.0, 1.0]}, "scales"),
    ("Interpolate", [("f32", X)], {"sizes": [2], "mode": "cubic"}, "mode"),
    ("Interpolate", [("f32", X)], {"sizes": [2], "coordinate_transformation_mode": "asymmetric"}, "coordinate"),
    ("Interpolate", [("s32", X)], {"sizes": [2]}, "s32"),
    ("Interpolate", [("f32", X), ("f32", (1,))], {}, "sizes"),
    ("Interpolate", [("f32", X), ("s32", (2,))], {}, "sizes"),
    ("Interpolate", [("f32", (3, 4))], {"sizes": [2]}, "spatial"),
    ("InterpolateBackward", [("f32", X), ("f32", (1, 3, 7))], {"sizes": [8]}, "diff_dst"),
    ("InterpolateBackward", [("f32", X), ("f32", (1, 7))], {"sizes": [7]}, "diff_dst"),
]


@pytest.mark.parametrize(("kind", "inputs", "attributes", "text"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(kind: str, inputs: Any, attributes: dict[str, Any], text: str) -> None:
    arrays = [np.ones(shape, DTYPES[dtype]) for dtype, shape in inputs]
    given = {"mode": "linear", "data_format": "NCX", **attributes}
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(build(kind, arrays, [(inputs[0][0], None)], given))
    (error,) = caught.value.exceptions
    assert text in str(error)
    assert error.node is not None
    assert error.node.op_type == kind
