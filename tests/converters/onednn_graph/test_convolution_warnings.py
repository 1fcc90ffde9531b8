"""Convolution family: warnings where the op specifications and the library differ."""

from __future__ import annotations

import pytest

from tests.converters.onednn_graph.refusing import FAMILIES, IOX, MODES, convert, window


@pytest.mark.parametrize("mode", MODES)
def test_halves_on_other_sides_are_told_with_both_paddings(mode: str) -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"dst_shape": [1, 2, 6], "auto_pad": "SAME_UPPER"}
    converted = convert("ConvolutionBackwardData", family.shapes, attributes, semantics=mode)
    told = (
        "auto_pad same_upper: the specification of ConvolutionBackwardData pads begin [1], end [0]; "
        "the library pads begin [0], end [1]"
    )
    assert [warning.endswith(told) for warning in converted.warnings] == [True] * (mode == "spec")
    assert any(told in step.notes for step in converted.steps) == (mode == "runtime")


def test_output_padding_that_only_the_specification_counts_is_warned_about() -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"dst_shape": [1, 2, 5], "auto_pad": "same_lower", "output_padding": [1]}
    assert convert("ConvolutionBackwardData", family.shapes, attributes).warnings == ()
    (warning,) = convert("ConvolutionBackwardData", family.shapes, attributes | {"auto_pad": "same_upper"}).warnings
    assert warning.endswith(
        "the specification of ConvolutionBackwardData pads begin [2], end [0]; the library pads begin [1], end [1]"
    )


def test_even_totals_and_explicit_padding_are_not_warned_about() -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    for changes in (
        {"dst_shape": [1, 2, 5], "auto_pad": "same_upper"},
        {"output_padding": [1], "dst_shape": [1, 2, 8]},
    ):
        assert convert("ConvolutionBackwardData", family.shapes, family.attributes | changes).warnings == ()


def test_unknown_sizes_under_same_are_warned_about() -> None:
    family = FAMILIES["ConvolutionBackwardData"]
    attributes = family.attributes | {"auto_pad": "same_upper"}
    (warning,) = convert("ConvolutionBackwardData", [(1, 4, None), (4, 2, 3)], attributes).warnings
    assert "ConvolutionBackwardData puts the odd element of the total padding at the begin" in warning


def test_the_library_ignores_dilations_in_one_op() -> None:
    attributes = window(**IOX, dilations=[2])
    (warning,) = convert("ConvTransposeBackwardData", [(1, 2, 9), (4, 2, 3)], attributes).warnings
    assert "the library ignores dilations [2]" in warning


def test_the_library_pads_the_weights_gradient_of_a_transposed_convolution_by_another_rule() -> None:
    family = FAMILIES["ConvTransposeBackwardWeights"]
    attributes = family.attributes | {"auto_pad": "same_upper"}
    shapes = [(1, 4, 3), (1, 2, 6)]
    (warning,) = convert("ConvTransposeBackwardWeights", shapes, attributes).warnings
    assert "ConvTranspose pads begin [0], end [1]; in this op the library pads begin [1], end [1]" in warning
