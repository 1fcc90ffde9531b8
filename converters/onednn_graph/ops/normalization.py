"""Normalisations."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.convolution import inverse, transpose
from ortconv.converters.onednn_graph.dtypes import check_type, computed, dtype_name, one_type
from ortconv.converters.onednn_graph.layout import DataFormat, broken_vector, channels_of, known_dims, rank_of, to_ncx
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError


@REGISTRY.lowering("BatchNormInference")
def batch_norm_inference(
    b: Builder,
    src: ir.Value,
    gamma: ir.Value,
    beta: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    /,
    *,
    epsilon: float,
    data_format: DataFormat = "NXC",
) -> ir.Value:
    """Lowers to ai.onnx BatchNormalization, between Transposes for NXC; computed in float32."""
    one_type(b, src=src)
    channels = channels_of("src", src, data_format)
    statistics = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    for name, value in statistics.items():
        # The page pairs f32 statistics with every src, and bf16 ones with a bf16 src only.
        check_type(name, value.dtype, ["f32", "bf16"] if dtype_name(src.dtype) == "bf16" else ["f32"])
        check_type(name, value.dtype, [dtype_name(gamma.dtype)])
        dims = known_dims(value)
        if dims is not None and broken_vector(dims, channels):
            raise ShapeError(name, dims, f"[{channels}] is required: one entry per channel of src in {data_format}.")
    perm = to_ncx(rank_of("src", src), data_format)

    def normalized(x: ir.Value, *rest: ir.Value) -> ir.Value:
        data = transpose(b, x, perm)
        result = b.op("BatchNormalization", data, *rest, epsilon=epsilon)
        return transpose(b, b.typed(result, data.dtype, data.shape), inverse(perm))

    return b.typed(computed(b, (src, *statistics.values()), normalized, exact=False), None, src.shape)
