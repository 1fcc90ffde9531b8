"""Convolution family: sizes that are known at run time, and contradict one another there."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import ortconv
from ortconv import onednn
from tests.converters.onednn_graph.refusing import MODES, NCX, window
from tests.running import run


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_a_runtime_dst_shape_that_contradicts_batch_or_channels_fails(mode: str, data_format: str) -> None:
    channels_last = data_format == "NXC"
    g = onednn.Graph()
    x = g.tensor("x", "f32", (2, 3, 4) if channels_last else (2, 4, 3))
    w, shape = g.tensor("w", "f32", (4, 3, 3)), g.tensor("shape", "s32", (3,))
    g.op("ConvolutionBackwardData", [x, w, shape], **window(data_format=data_format, weights_format="OIX"))
    model = ortconv.conversion(g, semantics=mode).to_proto()
    feeds = {tensor.name: np.ones([dim or 1 for dim in tensor.shape or ()], np.float32) for tensor in (x, w)}

    def result(batch: int, channels: int) -> np.ndarray:
        sizes = [batch, 7, channels] if channels_last else [batch, channels, 7]
        (found,) = run(model, feeds | {"shape": np.array(sizes, np.int32)}, "none")
        return found

    assert result(2, 3).shape == ((2, 7, 3) if channels_last else (2, 3, 7))
    for batch, channels in ((3, 2), (1, 3), (2, 6), (1, 1)):
        with pytest.raises(Exception, match="Reshape") as caught:
            result(batch, channels)
        assert type(caught.value).__module__.startswith(onnxruntime.__name__)


def test_a_runtime_weights_shape_that_contradicts_the_channels_fails() -> None:
    g = onednn.Graph()
    tensors = [g.tensor("x", "f32", (1, 2, 7)), g.tensor("dy", "f32", (1, 4, 3)), g.tensor("shape", "s32", (3,))]
    g.op("ConvolutionBackwardWeights", tensors, **window(**NCX))
    model = ortconv.convert(g)
    feeds = {"x": np.ones((1, 2, 7), np.float32), "dy": np.ones((1, 4, 3), np.float32)}
    (found,) = run(model, feeds | {"shape": np.array([4, 2, 3], np.int32)}, "none")
    assert found.shape == (4, 2, 3)
    for sizes in ([2, 4, 3], [4, 2, 9]):
        with pytest.raises(Exception, match="Reshape"):
            run(model, feeds | {"shape": np.array(sizes, np.int32)}, "none")


@pytest.mark.parametrize("unknown", [1, 2])
def test_dynamic_sizes_that_contradict_the_weights_shape_fail(unknown: int) -> None:
    g = onednn.Graph()
    src: list[int | None] = [1, 2, 7]
    diff_dst: list[int | None] = [1, 4, 3]
    src[unknown] = diff_dst[unknown] = None
    tensors = [g.tensor("x", "f32", src), g.tensor("dy", "f32", diff_dst)]
    g.op("ConvolutionBackwardWeights", tensors, **window(**NCX, weights_shape=[4, 2, 3]))
    model = ortconv.convert(g)
    feeds = {"x": np.ones((1, 2, 7), np.float32), "dy": np.ones((1, 4, 3), np.float32)}
    (found,) = run(model, feeds, "none")
    np.testing.assert_array_equal(found, np.full((4, 2, 3), 3, np.float32))
    with pytest.raises(Exception, match="Reshape"):
        run(model, feeds | {"x": np.ones((1, 2, 6) if unknown == 2 else (1, 3, 7), np.float32)}, "none")
