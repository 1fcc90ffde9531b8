"""Errors cross process boundaries, as from a pool's worker, with everything they say."""

from __future__ import annotations

import pickle

import onnx_ir as ir
import pytest

from ortconv import errors
from ortconv.errors import NodeRef

NODE = NodeRef("a.xml", "Convolution", "conv", "7", "opset1")


@pytest.mark.parametrize(
    "error",
    [
        errors.UnsupportedOpError("is not supported.", hint="See the list.", node=NODE),
        errors.UnsupportedTypeError("filter", "i4", ["f32", "f16"], hint="Cast it."),
        errors.UnsupportedAttributeError("strides", [0], "above 0"),
        errors.ShapeError("filter", [1, None, "N"], "rank 4 is required.", node=NODE),
        errors.ModelFormatError("a.xml", "line 3", "no such type"),
        errors.ExecutionError("a.onnx", "ONNX Runtime", "fails", "Try this."),
    ],
)
def test_error_is_the_same_after_pickling(error: errors.OrtconvError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_shape_is_shown_as_numbers_names_and_question_marks() -> None:
    shape = ir.Shape([1, None, "N", 3])
    error = errors.ShapeError("filter", shape, "rank 3 is required.")
    assert str(error) == "filter has shape [1, ?, N, 3]: rank 3 is required."
    assert error.shape == (1, None, "N", 3)
    assert [type(dim) for dim in error.shape or ()] == [int, type(None), str, int]


def test_group_keeps_its_errors() -> None:
    group = errors.ConversionErrors("a.xml: 1 node refused", [errors.ShapeError("data", None, "is open.", node=NODE)])
    copy = pickle.loads(pickle.dumps(group))
    assert (copy.message, str(copy)) == (group.message, str(group))
    assert copy.exceptions[0].node == NODE
