"""Models that the examples of the documentation name, for the folder in which a page's session begins."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import ortconv
from tests.folders import SOURCES

__all__ = ["language_model", "prepare"]


def prepare(page: str, folder: pathlib.Path) -> None:
    """Writes the models that a page of docs/ begins with into a folder."""
    if page.startswith("tutorial/"):
        return
    import openvino

    if page == "how_to/language_models.md":
        (folder / "network").mkdir()
        openvino.save_model(
            language_model(vocabulary=100), folder / "network" / "openvino_model.xml", compress_to_fp16=False
        )
        return
    openvino.save_model(segmentation(), folder / "network.xml", compress_to_fp16=False)
    ortconv.conversion(folder / "network.xml").save(folder / "network.onnx")
    np.save(folder / "photo.npy", np.random.default_rng(5).random((1, 3, 32, 48), np.float32))
    if page == "how_to/convert.md":
        (folder / "network.onnx").unlink()
        (folder / "networks" / "more").mkdir(parents=True)
        for suffix in (".xml", ".bin"):
            shutil.copy(SOURCES / f"unet_decoder{suffix}", folder / "networks" / "more")
        for suffix in (".json", ".npz"):
            shutil.copy(SOURCES / f"onednn_upsample{suffix}", folder)
            shutil.copy(SOURCES / f"onednn_upsample{suffix}", folder / "networks")
    if page in ("how_to/optimize.md", "explanation/optimize.md"):
        onnx.save(vocoder(), folder / "vocoder.onnx")
        sources = SOURCES / "onednn_upsample.json", SOURCES / "onednn_upsample.npz"
        ortconv.conversion(sources[0], tensors=dict(np.load(sources[1]))).save(folder / "upsample.onnx")


def segmentation() -> Any:
    """A network for images of any size: down by two, up to the size of the image, a mask from 0 to 1."""
    from openvino import Model
    from openvino import opset13 as op

    rng = np.random.default_rng(7)

    def weights(*shape: int) -> Any:
        return op.constant((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))

    image = op.parameter([-1, 3, -1, -1], np.float32, name="image")
    image.output(0).set_names({"image"})
    zero = op.constant(0, np.int64)
    size = op.gather(op.shape_of(image), op.constant([2, 3], np.int64), zero)
    down = op.relu(op.convolution(image, weights(8, 3, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1], name="down"))
    up = op.convolution_backprop_data(down, weights(8, 1, 4, 4), [2, 2], size, auto_pad="same_upper", name="up")
    mask = op.sigmoid(op.add(up, op.constant(np.full((1, 1, 1, 1), 0.1, np.float32))), name="mask")
    mask.output(0).set_names({"mask"})
    return Model([mask], [image], "segmentation")


def vocoder(n_fft: int = 1024, hop: int = 256) -> onnx.ModelProto:
    """A network that writes its Fourier transforms as convolutions: sound [1, 1, samples] to sound."""
    bins = n_fft // 2 + 1
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    basis = np.exp(-2j * np.pi * np.outer(np.arange(bins), np.arange(n_fft)) / n_fft) * window
    filters = {
        "forward": np.concatenate([basis.real, basis.imag]),
        "inverse_real": basis.real / n_fft,
        "inverse_imag": -basis.imag / n_fft,
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["sound", "forward"], ["spectrum"], name="analysis", strides=[hop]),
        node("Split", ["spectrum"], ["real", "imag"], axis=1, num_outputs=2),
        node("ConvTranspose", ["real", "inverse_real"], ["from_real"], name="synthesis_real", strides=[hop]),
        node("ConvTranspose", ["imag", "inverse_imag"], ["from_imag"], name="synthesis_imag", strides=[hop]),
        node("Sub", ["from_real", "from_imag"], ["result"], name="difference"),
    ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 1, None)) for name in ("sound", "result")]
    stored = [numpy_helper.from_array(value[:, np.newaxis].astype(np.float32), name) for name, value in filters.items()]
    graph = helper.make_graph(nodes, "vocoder", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def language_model(vocabulary: int = 50, heads: int = 2, size: int = 8) -> Any:
    """A stateful model of one layer, as optimum-intel exports them: its cache is states, reordered by beam_idx."""
    import openvino
    from openvino import opset13 as op

    rng = np.random.default_rng(3)

    def constant(*shape: int) -> Any:
        return op.constant(rng.standard_normal(shape).astype(np.float32))

    ids, mask, positions = (op.parameter([-1, -1], np.int64, name=name) for name in ("ids", "mask", "positions"))
    beams = op.parameter([-1], np.int32, name="beams")
    inputs = zip(
        (ids, mask, positions, beams), ("input_ids", "attention_mask", "position_ids", "beam_idx"), strict=True
    )
    for node, name in inputs:
        node.output(0).set_names({name})
        node.set_friendly_name(name)
    zero = op.constant(0, np.int64)
    table = constant(vocabulary, heads * size)
    x = op.add(op.gather(table, ids, zero), op.gather(constant(64, heads * size), positions, zero))
    batch = op.gather(op.shape_of(ids), op.constant([0], np.int64), zero)
    empty = op.concat([batch, op.constant([heads, 0, size], np.int64)], 0)
    split = op.constant([0, 0, heads, size], np.int64)
    swap = op.constant([0, 2, 1, 3], np.int64)

    def rows() -> Any:
        return op.transpose(
            op.reshape(op.matmul(x, constant(heads * size, heads * size), False, False), split, True), swap
        )

    writes, cached = [], []
    for name in ("key", "value"):
        first = op.broadcast(op.constant(np.float32(0)), empty)
        before = openvino.opset6.read_value(
            first, name, openvino.Type.f32, openvino.PartialShape([-1, heads, -1, size])
        )
        now = op.concat([op.gather(before, beams, zero), rows()], 2)
        writes.append(openvino.opset6.assign(now, name))
        cached.append(now)
    allowed = op.convert(op.unsqueeze(mask, op.constant([1, 2], np.int64)), np.bool_)
    attended = op.scaled_dot_product_attention(rows(), *cached, allowed)
    joined = op.reshape(op.transpose(attended, swap), op.constant([0, 0, heads * size], np.int64), True)
    logits = op.result(op.matmul(joined, table, False, True))
    logits.output(0).set_names({"logits"})
    return openvino.Model([logits], writes, [ids, mask, positions, beams], "language model")
