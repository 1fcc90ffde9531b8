"""Weights that OpenVINO's CPU plugin computes itself, and whose Transpose it misreads: the page is followed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset4, opset5, opset6, opset7, opset8, opset9, opset10, opset14, opset15

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, model_of, numbers, run_onnx, run_openvino

Build = Callable[[Any], Any]
TABLE = numbers(4, 6, 8, low=0.1, high=0.9)
F32 = np.float32
WARNING = "transposes only the last two axes"


def gathered(shape: Sequence[int] = (4, 6, 8)) -> Any:
    """GatherElements of constants, which OpenVINO does not fold."""
    index = np.random.default_rng(1).integers(0, shape[0], size=shape)
    return gather_elements(numbers(*shape), index.astype(np.int32))


def gather_elements(table: np.ndarray, index: Any) -> Any:
    return opset6.gather_elements(opset6.constant(table), index, 0)


def values(node: Any) -> np.ndarray:
    """Returns what OpenVINO computes where nothing transposes it, in float64."""
    (made,) = run_openvino(openvino.Model([opset1.multiply(node, F32(1))], []), [[]])[0]
    return made.astype(np.float64)


def differs(source: openvino.Model, feed: Sequence[np.ndarray], right: np.ndarray) -> tuple[bool, bool]:
    """Asserts that the converted model is right; tells whether the plugin is not, and whether the conversion warns."""
    converted = conversion(source)
    assert_close(run_onnx(converted, [feed])[0][0], right.astype(F32), 64)
    (theirs,) = run_openvino(source, [feed])[0]
    return not np.allclose(theirs, right, 1e-3, 1e-3), any(WARNING in text for text in converted.warnings)


ORDERS = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


@pytest.mark.parametrize(
    ("order", "transpose_b", "open_batch"),
    [*((order, True, False) for order in ORDERS), ((1, 0, 2), False, False), ((1, 0, 2), True, True)],
    ids=str,
)
def test_products_by_transposed_weights(order: Sequence[int], transpose_b: bool, open_batch: bool) -> None:
    right = values(gathered()).transpose(order)
    right = right.transpose(0, 2, 1) if transpose_b else right
    feed = [numbers(right.shape[0], 5, right.shape[1])]
    source = model_of(
        lambda x: opset1.matmul(x, opset1.transpose(gathered(), np.array(order)), False, transpose_b),
        [feed],
        [[-1, *feed[0].shape[1:]]] if open_batch else None,
    )
    wrong = transpose_b and order[0] != 0
    assert differs(source, feed, feed[0] @ right) == (wrong, wrong)


@pytest.mark.parametrize(
    ("equation", "ones", "wrong"),
    [
        ("binh,tnh->bnit", "", True),
        ("bnih,hnt->bnit", "", True),
        ("bih,tbh->bit", "", True),
        ("binh,tnh->bnit", "h", True),
        ("binh,tnh->bnit", "n", False),
        ("binh,tnh->bnit", "t", False),
        ("bnih,nth->bnit", "", False),
        ("bnih,nht->bnit", "", False),
        ("bih,ht->bit", "", False),
        ("bnih,tmnh->bnitm", "", False),
    ],
)
def test_einsums(equation: str, ones: str, wrong: bool) -> None:
    sizes = {"b": 2, "i": 5, "n": 4, "h": 8, "t": 6, "m": 3} | dict.fromkeys(ones, 1)
    first, second = ([sizes[label] for label in part] for part in equation.split("->")[0].split(","))
    feed = [numbers(*first)]
    right = np.einsum(equation, feed[0], values(gathered(second)))
    source = model_of(lambda x: opset7.einsum([x, gathered(second)], equation), [feed])
    assert differs(source, feed, right) == (wrong, wrong)


def test_the_first_operand_of_an_einsum() -> None:
    feed = [numbers(2, 5, 4, 8)]
    right = np.einsum("tnh,binh->bnit", values(gathered((6, 4, 8))), feed[0])
    source = model_of(lambda x: opset7.einsum([gathered((6, 4, 8)), x], "tnh,binh->bnit"), [feed])
    assert differs(source, feed, right) == (False, False)


IMAGE = np.array([1, 4, 6, 8])


def as_image(x: Any) -> Any:
    return opset1.reshape(x, IMAGE, False)


def as_table(x: Any) -> Any:
    return opset1.reshape(x, IMAGE[1:], False)


COMPUTED: dict[str, Build] = {
    "AvgPool": lambda x: as_table(opset1.avg_pool(as_image(x), [1, 1], [0, 0], [0, 0], [1, 1], True)),
    "Bucketize": lambda x: opset1.convert(opset3.bucketize(x, np.array([0.2, 0.4, 0.6], F32)), "f32"),
    "Convolution": lambda x: as_table(
        opset1.convolution(as_image(x), numbers(4, 4, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1])
    ),
    "DFT": lambda x: as_table(opset7.dft(opset1.reshape(x, np.array([4, 6, 4, 2]), False), np.array([1]))),
    "Elu": lambda x: opset1.elu(opset1.negative(x), 1.0),
    "EmbeddingBagPackedSum": lambda x: as_table(
        opset3.embedding_bag_packed_sum(
            opset1.reshape(x, np.array([24, 8]), False), np.arange(24, dtype=np.int32)[:, None]
        )
    ),
    "GatherND": lambda x: opset8.gather_nd(x, np.array([[3], [2], [0], [1]])),
    "HardSigmoid": lambda x: opset1.hard_sigmoid(x, F32(0.3), F32(0.4)),
    "Inverse": lambda x: opset14.inverse(opset8.slice(x, np.array([0]), np.array([6]), np.array([1]), np.array([2]))),
    "Mod": lambda x: opset1.mod(x, F32(0.3)),
    "ReverseSequence": lambda x: opset1.reverse_sequence(x, np.array([6, 2, 3, 5]), 0, 1),
    "Roll": lambda x: opset7.roll(x, np.array([1]), np.array([1])),
    "SearchSorted": lambda x: opset1.convert(opset15.search_sorted(np.sort(TABLE, -1), x), "f32"),
    "Selu": lambda x: opset1.selu(opset1.negative(x), F32(1.67), F32(1.05)),
    "SoftSign": lambda x: opset9.softsign(x),
    "Unique": lambda x: as_table(opset10.unique(x).output(0)),
    "what follows one": lambda x: opset1.add(opset1.relu(opset9.softsign(x)), numbers(8)),
    "sizes": lambda x: gather_elements(
        TABLE, opset1.broadcast(np.int32([[[3]], [[1]], [[2]], [[1]]]), opset1.shape_of(x))
    ),
}
FOLDED: dict[str, Build] = {
    "Sin": opset1.sin,
    "CumSum": lambda x: opset3.cum_sum(x, np.array(1)),
    "LogSoftmax": lambda x: opset5.log_softmax(x, 1),
    "SoftMax": lambda x: opset1.softmax(x, 1),
    "ScatterUpdate": lambda x: opset3.scatter_update(x, np.array([1]), numbers(1, 6, 8), np.array(0)),
}


@pytest.mark.parametrize("name", [*COMPUTED, *FOLDED])
def test_ops_of_constants(name: str) -> None:
    def weights() -> Any:
        return (COMPUTED | FOLDED)[name](opset1.constant(TABLE))

    made = values(weights())
    feed = [numbers(made.shape[1], 5, made.shape[2])]
    right = feed[0] @ made.transpose(1, 2, 0)
    source = model_of(lambda x: opset1.matmul(x, opset1.transpose(weights(), np.array([1, 0, 2])), False, True), [feed])
    wrong = name in COMPUTED
    assert differs(source, feed, right) == (wrong, wrong)


@pytest.mark.parametrize("known", [False, True])
def test_positions_of_data(known: bool) -> None:
    """What is gathered by the positions of data are weights where their number is known, though the batch is not."""
    table = numbers(6, 4, 8)

    def positions(x: Any) -> Any:
        size = opset8.gather(opset1.shape_of(x), np.array(1), np.array(0))
        index = opset1.reshape(opset4.range(np.array(0), size, np.array(1), "i64"), np.array([-1, 1, 1]), False)
        sizes = opset1.concat([opset1.unsqueeze(size, np.array(0)), np.array([4, 8])], 0)
        return gather_elements(table, opset1.broadcast(index, sizes))

    feed = [numbers(2, 5, 4, 8)]
    right = np.einsum("binh,tnh->bnit", feed[0], table[:5].astype(np.float64))
    open_sizes = [-1, 5 if known else -1, 4, 8]
    source = model_of(lambda x: opset7.einsum([x, positions(x)], "binh,tnh->bnit"), [feed], [open_sizes])
    assert differs(source, feed, right) == (known, known)
