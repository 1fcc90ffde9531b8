"""Attributes that Model Optimizer, or a person, wrote into files of version 10, and that OpenVINO's ops do not have.

OpenVINO's reader looks up only the attributes that an op has, so these change no result.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["LEFTOVERS", "kept_attributes"]

_CONVOLUTION = ("group", "kernel", "output", "output_padding")
_TRANSPOSED = ("group", "kernel", "output")
_IMAGE = ("img_h", "img_size", "img_w")
_CELL = ("activation_alpha", "activation_beta", "element_type")
_SEQUENCE = (*_CELL, "axis")
_DETECTION = (
    *("eta", "height", "height_scale", "interp_mode", "label_map_file", "name_size_file", "num_test_image"),
    *("output_directory", "output_format", "output_name_prefix", "pad_mode", "pad_value", "prob", "resize_mode"),
    *("save_file", "visualize", "visualize_threshold", "width", "width_scale"),
)

LEFTOVERS: Mapping[str, Mapping[str, int]] = {
    "AvgPool": {"dilations": 14},
    "BinaryConvolution": dict.fromkeys(_CONVOLUTION, 1),
    "Convolution": dict.fromkeys(_CONVOLUTION, 1),
    "ConvolutionBackpropData": dict.fromkeys(_TRANSPOSED, 1),
    "DeformableConvolution": dict.fromkeys(("kernel", "output", "output_padding"), 8),
    "DetectionOutput": dict.fromkeys(_DETECTION, 8),
    "ExperimentalDetectronROIFeatureExtractor": dict.fromkeys(
        ("distribute_rois_between_levels", "image_id", "preserve_rois_order"), 6
    ),
    "GRUCell": dict.fromkeys(_CELL, 3),
    "GRUSequence": dict.fromkeys(_SEQUENCE, 5),
    "GroupConvolution": dict.fromkeys(_CONVOLUTION, 1),
    "GroupConvolutionBackpropData": dict.fromkeys(_TRANSPOSED, 1),
    "LSTMCell": dict.fromkeys(_CELL, 4),
    "LSTMSequence": dict.fromkeys(_SEQUENCE, 5),
    "MaxPool": {"dilations": 1, "exclude-pad": 14},
    "PriorBox": dict.fromkeys((*_IMAGE, "step_h", "step_w"), 8),
    "PriorBoxClustered": dict.fromkeys((*_IMAGE, "flip"), 1),
    "Proposal": {"for_deformable": 4},
    "RNNCell": dict.fromkeys(_CELL, 1),
    "RNNSequence": dict.fromkeys(_SEQUENCE, 5),
}
"""By op type and attribute: the last opset whose form of the op does not have it."""


def kept_attributes(type: str, opset: int, attributes: Mapping[str, str]) -> dict[str, str]:
    """Returns the attributes of a layer without what its op does not have."""
    leftovers = LEFTOVERS.get(type, {})
    return {name: text for name, text in attributes.items() if opset > leftovers.get(name, 0)}
