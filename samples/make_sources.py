"""Makes the source files that the samples convert: two OpenVINO IRs and a oneDNN graph with its tensors.

The files are part of the repository; run this (it needs OpenVINO) to make them again.
"""

from __future__ import annotations

import pathlib

import numpy as np
import openvino
from openvino import opset8, opset13

from ortconv import onednn

FOLDER = pathlib.Path(__file__).parent / "sources"
SEED = 20


def upsample_picture() -> openvino.Model:
    """Bilinear enlargement by 4: edge padding, then a grouped transposed convolution with a tent kernel."""
    factor = 4
    data = opset13.parameter([1, 3, -1, -1], name="picture", dtype=np.float32)
    data.output(0).set_names({"picture"})
    border = opset13.constant(np.array([0, 0, 1, 1], np.int64))
    padded = opset13.pad(data, border, border, "edge", name="edge")
    tent = 1 - np.abs(np.arange(2 * factor) - (2 * factor - 1) / 2) / factor
    kernel = np.broadcast_to(np.outer(tent, tent), (3, 1, 1, 2 * factor, 2 * factor)).astype(np.float32)
    crop = [factor // 2 + factor] * 2
    grown = opset13.group_convolution_backprop_data(
        padded,
        opset13.constant(kernel),
        strides=[factor] * 2,
        pads_begin=crop,
        pads_end=crop,
        dilations=[1, 1],
        name="bilinear",
    )
    result = opset13.clamp(grown, 0.0, 1.0, name="enlarged")
    result.output(0).set_names({"enlarged"})
    return openvino.Model([result], [data], "upsample_picture")


def unet_decoder() -> openvino.Model:
    """Two decoder stages; each grows to the size of its skip connection, which is known only at run time."""
    rng = np.random.default_rng(SEED)

    def weights(*shape: int) -> openvino.Node:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        return opset8.constant((rng.standard_normal(shape) * scale).astype(np.float32))

    def parameter(name: str, channels: int) -> openvino.Node:
        made = opset8.parameter([-1, channels, -1, -1], name=name, dtype=np.float32)
        made.output(0).set_names({name})
        return made

    bottom, skip_2, skip_1 = parameter("bottom", 32), parameter("skip_2", 16), parameter("skip_1", 8)
    features = bottom
    for stage, (skip, channels) in enumerate([(skip_2, 16), (skip_1, 8)], 1):
        sizes = opset8.strided_slice(
            opset8.shape_of(skip), np.array([2], np.int64), np.array([4], np.int64), np.array([1], np.int64), [0], [0]
        )
        grown = opset8.convolution_backprop_data(
            features,
            weights(2 * channels, channels, 3, 3),
            [2, 2],
            sizes,
            auto_pad="same_upper",
            name=f"up_{stage}",
        )
        joined = opset8.concat([grown, skip], 1, name=f"join_{stage}")
        mixed = opset8.convolution(
            joined, weights(channels, 2 * channels, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], name=f"conv_{stage}"
        )
        bias = opset8.constant(rng.standard_normal((1, channels, 1, 1)).astype(np.float32) * np.float32(0.1))
        features = opset8.relu(opset8.add(mixed, bias), name=f"relu_{stage}")
    foreground = rng.standard_normal((1, 8, 1, 1)).astype(np.float32)
    contrast = np.concatenate([foreground.mean() - foreground, foreground - foreground.mean()])
    head = opset8.convolution(features, opset8.constant(contrast), [1, 1], [0, 0], [0, 0], [1, 1], name="head")
    mask = opset8.softmax(head, 1, name="mask")
    mask.output(0).set_names({"mask"})
    return openvino.Model([mask], [bottom, skip_2, skip_1], "unet_decoder")


def onednn_upsample() -> tuple[onednn.Graph, dict[str, np.ndarray]]:
    """Channels-last data, XIO weights, and an odd total padding that same_lower splits."""
    graph = onednn.Graph("onednn_upsample")
    diff_dst = graph.tensor("diff_dst", "f32", [1, 12, 16, 24])
    weights = graph.tensor("weights", "f32", [3, 3, 8, 24], constant=True)
    up = graph.op(
        "ConvolutionBackwardData",
        [diff_dst, weights],
        name="up",
        strides=[2, 2],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[1, 1],
        auto_pad="same_lower",
        data_format="NXC",
        weights_format="XIO",
        dst_shape=[1, 24, 32, 8],
    )
    bias = graph.tensor("bias", "f32", [8], constant=True)
    shifted = graph.op("BiasAdd", [up, bias], name="bias_add", data_format="NXC")
    graph.op("ReLU", [shifted], name="relu")
    rng = np.random.default_rng(SEED)
    return graph, {
        "weights": (rng.standard_normal((3, 3, 8, 24)) / 15).astype(np.float32),
        "bias": (rng.standard_normal(8) / 10).astype(np.float32),
    }


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for model in (upsample_picture(), unet_decoder()):
        openvino.save_model(model, FOLDER / f"{model.friendly_name}.xml", compress_to_fp16=False)
    graph, tensors = onednn_upsample()
    graph.save(FOLDER / "onednn_upsample.json")
    np.savez(FOLDER / "onednn_upsample.npz", **tensors)


if __name__ == "__main__":
    main()
