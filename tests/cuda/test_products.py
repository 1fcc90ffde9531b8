"""Products by compressed weights, and by codes of a table, on the GPU, against the definition in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype

from ortconv.opset.ops.compressed_weights import QUANTIZED_TYPES
from tests.cuda import device
from tests.operators import codebooks, gather_products
from tests.operators.products import SIZES, assert_product, model

LARGE = [] if device.EMULATED else [(4096, 4096, 128), (1000, 14336, 14336), (11008, 896, 32)]
"""Too slow to emulate."""


def data(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("points", [False, True], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("sizes", SIZES + LARGE, ids=str)
def test_product_is_the_definition(code: int, points: bool, sizes: tuple[int, int, int], library: str) -> None:
    rows, depth, block = sizes
    point = (rows, depth // block) if points else None
    for lead in ((1,), (2, 3), (1, 1, 40), (70,), (0,)):
        made = model(code, x=[*lead[:-1], "N", depth], data=(rows, depth), block=block, point=point)
        x = data(*lead, depth)
        (y,) = device.session(made, device.only_here()).run(None, {"X": x})
        assert_product(made, x, y, block)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16], ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("sizes", [(5, 7, 7), (33, 300, 100), (70, 256, 32), *LARGE], ids=str)
def test_floats_of_16_bits(kind: int, code: int, sizes: tuple[int, int, int], library: str) -> None:
    rows, depth, block = sizes
    dtype = tensor_dtype_to_np_dtype(kind)
    made = model(code, data=(rows, depth), block=block, point=(rows, depth // block), x_type=kind)
    session = device.session(made, device.only_here())
    for count in (1, 6, 40, 200, 0):
        x = data(count, depth).astype(dtype)
        (y,) = session.run(None, {"X": x})
        assert_product(made, x, y, block, factors=float(ml_dtypes.finfo(dtype).eps) / 2)  # weights may be rounded


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_numbers_of_rows_change_from_run_to_run(code: int, library: str) -> None:
    made = model(code, data=(70, 256), block=128, point=(70, 2))
    session = device.session(made, device.only_here())
    for rows in (1, 300, 2, 5, 1, 17, 65, 0, 8):
        x = data(rows, 256)
        assert_product(made, x, session.run(None, {"X": x})[0], 128)


@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("rows", [1, 70])
def test_weights_of_the_run(code: int, rows: int, library: str) -> None:
    constant = model(code, data=(9, 64), block=32, point=(9, 2))
    made = model(code, data=(9, 64), block=32, point=(9, 2), constant=False)
    x = data(rows, 64)
    weights = {each.name: numpy_helper.to_array(each) for each in constant.graph.initializer}
    (y,) = device.session(made, device.only_here()).run(None, {"X": x, **weights})
    assert_product(constant, x, y, 32)


@pytest.mark.parametrize("value", ["0", "1"])
def test_tf32_only_where_it_is_allowed(value: str, library: str) -> None:
    made = model(TensorProto.UINT8, data=(64, 256), block=32, point=(64, 8))
    x = data(200, 256)
    (y,) = device.session(made, device.options(use_tf32=value)).run(None, {"X": x})
    if value == "0":
        assert_product(made, x, y, 32)
        return
    assert_product(made, x, y, 32, factors=2.0**-9)  # each is rounded to 11 bits
    with pytest.raises(AssertionError):
        assert_product(made, x, y, 32)


@pytest.mark.parametrize("rows", [1, 5, 70])
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
def test_infinities_and_nan_reach_their_rows_only(code: int, rows: int, library: str) -> None:
    made = model(code, data=(33, 256), block=32, point=(33, 8))
    x = data(rows, 256)
    x[rows // 2, 7] = np.nan
    (y,) = device.session(made, device.only_here()).run(None, {"X": x})
    assert np.isnan(y[rows // 2]).all()
    rest = np.arange(rows) != rows // 2
    assert_product(made, x[rest], y[rest], 32)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16], ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("code", QUANTIZED_TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("sizes", [(3, 7, 7), (33, 300, 100), (70, 256, 32), *LARGE], ids=str)
def test_matrices_that_an_index_names(kind: int, code: int, sizes: tuple[int, int, int], library: str) -> None:
    rows, depth, block = sizes
    point = (4, rows, depth // block)
    made = gather_products.model(code, data=(4, rows, depth), block=block, point=point, x_type=kind)
    session = device.session(made, device.only_here())
    for count, slots in ((1, 3), (5, 2), (0, 2)):
        index = gather_products.indices(count, slots, 4)
        for of_each in (1, slots):
            x = data(count, of_each, depth).astype(tensor_dtype_to_np_dtype(kind))
            (y,) = session.run(None, {"X": x, "I": index})
            gather_products.assert_products(made, x, index, y, block)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("sizes", [(5, 6, 3), (33, 300, 100), (70, 256, 32), *LARGE], ids=str)
def test_codes_of_a_table(kind: int, sizes: tuple[int, int, int], library: str) -> None:
    rows, depth, block = sizes
    dtype = tensor_dtype_to_np_dtype(kind)
    rounding = 0.0 if kind == TensorProto.FLOAT else float(ml_dtypes.finfo(dtype).eps) / 2
    made = codebooks.model(data=(rows, depth), block=block, x_type=kind)
    session = device.session(made, device.only_here())
    for count in (1, 6, 40, 200, 0):
        x = data(count, depth).astype(dtype)
        (y,) = session.run(None, {"X": x})
        codebooks.assert_product(made, x, y, block, factors=rounding)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_codes_of_matrices_that_an_index_names(kind: int, library: str) -> None:
    made = codebooks.model(data=(4, 33, 64), block=32, x_type=kind)
    session = device.session(made, device.only_here())
    for count, slots in ((1, 3), (5, 2), (0, 2)):
        index = gather_products.indices(count, slots, 4)
        for of_each in (1, slots):
            x = data(count, of_each, 64).astype(tensor_dtype_to_np_dtype(kind))
            (y,) = session.run(None, {"X": x, "I": index})
            codebooks.assert_product(made, x, y, 32, index)
