"""Files that are not graphs: one clear error each, at the right place."""

from __future__ import annotations

import contextlib
import copy
import json
import pathlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ortconv
from ortconv.converters.onednn_graph.reader import json_file
from ortconv.errors import ConversionErrors, ModelFormatError
from tests.converters.onednn_graph.documents import UNKNOWN, Json, backward_data, graph, op, tensor, write

MISSING = object()


def refused(path: pathlib.Path) -> ModelFormatError:
    with pytest.raises(ModelFormatError) as caught:
        ortconv.convert(path)
    assert caught.value.path == str(path)
    assert str(caught.value).startswith(f"{path}: {caught.value.where}")
    return caught.value


def changed(document: Json, pointer: str, value: object) -> Json:
    """Returns a copy with another value, or without one, at a JSON pointer."""
    result = copy.deepcopy(document)
    *parents, last = [int(part) if part.isdecimal() else part for part in pointer.strip("/").split("/")]
    place: Any = result
    for part in parents:
        place = place[part]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return result


@pytest.mark.parametrize(
    ("pointer", "value", "where", "problem"),
    [
        ("/graph", MISSING, "", "no field graph"),
        ("/graph", {}, "/graph", "allowed: a list"),
        ("/graph", [], "/graph", "no operation"),
        ("/graph/1", 7, "/graph/1", "allowed: an object"),
        ("/input_ports", 3, "/input_ports", "allowed: a list"),
        ("/output_ports/0", -1, "/output_ports/0", "an integer from 0 to"),
        ("/graph/0/id", MISSING, "/graph/0", "no field id"),
        ("/graph/0/id", -1, "/graph/0/id", "an integer from 0 to"),
        ("/graph/0/id", 2**64, "/graph/0/id", "an integer from 0 to"),
        ("/graph/0/id", True, "/graph/0/id", "true is not allowed"),
        ("/graph/0/id", 1, "/graph/1", "has the id 1 of the op at /graph/0"),
        ("/graph/0/kind", MISSING, "/graph/0", "no field kind"),
        ("/graph/0/kind", 4, "/graph/0/kind", "allowed: a string"),
        ("/graph/0/name", None, "/graph/0/name", "null is not allowed here; allowed: a string"),
        ("/graph/0/inputs", MISSING, "/graph/0", "no field inputs"),
        ("/graph/0/outputs", None, "/graph/0/outputs", "allowed: a list"),
        (
            "/graph/0/inputs",
            [tensor(0)],
            "/graph/0/inputs",
            "has 1 tensors; allowed for ConvolutionBackwardData: diff_dst",
        ),
        ("/graph/0/outputs", [], "/graph/0/outputs", "has 0 tensors; allowed for ConvolutionBackwardData: diff_src"),
        ("/graph/0/inputs/0", "x", "/graph/0/inputs/0", "allowed: an object"),
        ("/graph/0/inputs/0/id", "0", "/graph/0/inputs/0/id", "an integer from 0 to"),
        ("/graph/0/inputs/0/dtype", "float", "/graph/0/inputs/0/dtype", "allowed: undef, f32"),
        ("/graph/0/inputs/0/dtype", ["f32"], "/graph/0/inputs/0/dtype", "allowed: undef, f32"),
        ("/graph/0/inputs/0/shape", MISSING, "/graph/0/inputs/0", "no field shape"),
        ("/graph/0/inputs/0/shape", "1x4", "/graph/0/inputs/0/shape", "allowed: a list"),
        ("/graph/0/inputs/0/shape/1", -1, "/graph/0/inputs/0/shape", "none negative"),
        ("/graph/0/inputs/0/shape/1", 1.0, "/graph/0/inputs/0/shape/1", "an integer from"),
        ("/graph/0/inputs/0/shape/1", 10**30, "/graph/0/inputs/0/shape/1", "an integer from"),
        ("/graph/0/inputs/0/shape", [1] * 13, "/graph/0/inputs/0/shape", "up to 12 dimensions"),
        ("/graph/0/inputs/0/shape", [2**40, 2**40], "/graph/0/inputs/0/shape", "more elements than"),
        ("/graph/0/inputs/0/stride", [None], "/graph/0/inputs/0/stride/0", "an integer from"),
        ("/graph/0/inputs/0/layout_type", "blocked", "/graph/0/inputs/0/layout_type", "allowed: strided, any"),
        ("/graph/0/inputs/0/property_type", 1, "/graph/0/inputs/0/property_type", "allowed: undef, variable"),
        ("/graph/1/inputs/0/dtype", "bf16", "/graph/1/inputs/0/dtype", "has dtype bf16 here and f32 before"),
        ("/graph/1/inputs/0/shape", [1, 2, 49], "/graph/1/inputs/0/shape", "here and [1, 2, 7, 7] before"),
        ("/graph/1/outputs/0/id", 2, "/graph/1", "computes tensor 2, as the op at /graph/0 does"),
        ("/graph/0/inputs/0", tensor(3, (1, 2, 7, 7)), "/graph/0", "depends on its own result"),
        ("/graph/0/attrs", [], "/graph/0/attrs", "allowed: an object"),
        ("/graph/0/attrs/strides", [2, 2], "/graph/0/attrs/strides", "allowed: an object"),
        ("/graph/0/attrs/strides/type", MISSING, "/graph/0/attrs/strides", "no field type"),
        ("/graph/0/attrs/strides/value", MISSING, "/graph/0/attrs/strides", "no field value"),
        (
            "/graph/0/attrs/strides/type",
            "s64",
            "/graph/0/attrs/strides/type",
            "'s64' is not allowed here; allowed: s64[]",
        ),
        ("/graph/0/attrs/strides/value", 2, "/graph/0/attrs/strides/value", "not of type s64[]"),
        ("/graph/0/attrs/strides/value", {"0": 2}, "/graph/0/attrs/strides/value", "not of type s64[]"),
        ("/graph/0/attrs/strides/value", [2, 2.5], "/graph/0/attrs/strides/value", "2.5 is not a 64-bit integer"),
        ("/graph/0/attrs/strides/value", [2, True], "/graph/0/attrs/strides/value", "True is not a 64-bit integer"),
        ("/graph/0/attrs/strides/value", [2, 2**63], "/graph/0/attrs/strides/value", "is not a 64-bit integer"),
        ("/graph/0/attrs/groups/value", float("nan"), "/graph/0/attrs/groups/value", "nan is not a 64-bit integer"),
        ("/graph/0/attrs/auto_pad/value", 0, "/graph/0/attrs/auto_pad/value", "allowed: a string"),
        ("/graph/0/attrs/new", {"type": "u8", "value": 1}, "/graph/0/attrs/new/type", "allowed: s64, s64[], f32"),
        ("/graph/0/attrs/a~1b", {"type": "f32", "value": "x"}, "/graph/0/attrs/a~01b/value", "not a finite"),
        ("/ortconv", {"tensor_names": {"0": "7"}}, "/ortconv/tensor_names/0", "empty, a number or taken"),
        ("/ortconv", {"tensor_names": {"x": "y"}}, "/ortconv/tensor_names/x", "'x' is not a tensor id"),
        ("/ortconv", {"tensor_names": {"9" * 5000: "y"}}, f"/ortconv/tensor_names/{'9' * 5000}", "is not a tensor id"),
        ("/ortconv", {"tensor_names": {"0": "a", "1": "a"}}, "/ortconv/tensor_names/1", "empty, a number or taken"),
        ("/ortconv", {"tensor_names": {"0": "tensor_1"}}, "/graph", "two tensors have the name 'tensor_1'"),
    ],
)
def test_a_field_of_another_kind_is_refused_where_it_stands(
    tmp_path: pathlib.Path, pointer: str, value: object, where: str, problem: str
) -> None:
    error = refused(write(tmp_path, changed(backward_data(), pointer, value)))
    assert error.where == where
    assert problem in error.problem


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39, -(10**400), "0", None, [], True])
def test_a_number_that_is_not_finite_is_refused(tmp_path: pathlib.Path, value: object) -> None:
    clamp = op(0, "Clamp", [tensor(0)], [tensor(1)], {"min": ("f32", value), "max": ("f32", 1)})
    error = refused(write(tmp_path, graph(clamp)))
    assert error.where == "/graph/0/attrs/min/value"


def test_an_input_of_unknown_rank_is_refused_since_onnx_has_none(tmp_path: pathlib.Path) -> None:
    error = refused(write(tmp_path, changed(backward_data(), "/graph/0/inputs/0/shape", [UNKNOWN])))
    assert (error.where, error.problem) == (
        "/graph",
        "input tensor_0 has an unknown number of dimensions; unknown sizes are allowed.",
    )


def test_a_tensor_computed_twice_by_one_operation_is_refused(tmp_path: pathlib.Path) -> None:
    error = refused(write(tmp_path, graph(op(0, "SoftMax", [tensor(0)], [tensor(1), tensor(1)]))))
    assert (error.where, error.problem) == ("/graph/0", "the op computes tensor 1, as the op at /graph/0 does.")


def test_a_long_cycle_is_refused(tmp_path: pathlib.Path) -> None:
    ring = [op(i, "ReLU", [tensor(i)], [tensor((i + 1) % 3000)]) for i in range(3000)]
    assert "depends on its own result" in refused(write(tmp_path, graph(*ring))).problem


@pytest.mark.parametrize(
    ("content", "where", "problem"),
    [
        (b"", "line 1", "not JSON"),
        (b"   ", "line 1", "not JSON"),
        (b'{"graph": [\n', "line 2", "not JSON"),
        (b'{"graph": [],\n "graph": []}', "", "has the field 'graph' twice"),
        (b"[1, 2]", "", "allowed: an object"),
        (b"7", "", "allowed: an object"),
        (b'"' + b"x" * 1000 + b'"', "", "allowed: an object"),
        (b'{"graph": \xff\xfe}', "byte 10", "is not UTF-8"),
        (b"\x89PNG\r\n\x1a\n", "byte 0", "is not UTF-8"),
        (json.dumps(graph()).encode("utf-16"), "byte 0", "is not UTF-8"),
        (b"[" * 200_000, "", "nested too deeply"),
        (b'{"graph":' * 100_000, "", "nested too deeply"),
        (b'{"graph": [{"id": ' + b"9" * 100_000 + b"}]}", "/graph/0", "no field inputs"),
        (b'{"graph": [{"name": "\\ud800"}]}', "/graph/0", "no field inputs"),
    ],
    ids=range(14),
)
def test_what_is_no_json_object_is_refused(tmp_path: pathlib.Path, content: bytes, where: str, problem: str) -> None:
    error = refused(write(tmp_path, content))
    assert error.where == where
    assert problem in error.problem
    assert len(str(error)) < 1000


def test_text_that_utf_8_cannot_hold_is_refused(tmp_path: pathlib.Path) -> None:
    document = json.dumps(changed(backward_data(), "/graph/0/name", "\ud800"))
    error = refused(write(tmp_path, document))
    assert (error.where, "valid Unicode" in error.problem) == ("/graph/0/name", True)


def test_a_repeated_attribute_is_refused(tmp_path: pathlib.Path) -> None:
    text = json.dumps(backward_data()).replace('"strides":', '"groups": {"type": "s64", "value": 2}, "strides":', 1)
    error = refused(write(tmp_path, text))
    assert (error.where, error.problem) == ("/graph/0/attrs", "has the field 'groups' twice.")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: pathlib.Path) -> None:
    assert "cannot be read: No such file" in refused(tmp_path / "absent.json").problem
    (tmp_path / "folder.json").mkdir()
    assert "cannot be read: Is a directory" in refused(tmp_path / "folder.json").problem


def test_a_file_of_absurd_size_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_file, "_MAX_BYTES", 100)
    assert "has more than 100 bytes" in refused(write(tmp_path, backward_data())).problem


def test_every_truncation_is_refused(tmp_path: pathlib.Path) -> None:
    text = json.dumps(backward_data())
    for length in range(0, len(text), 23):
        assert "not JSON" in refused(write(tmp_path, text[:length])).problem


@pytest.mark.parametrize("name", ["strides", "dilations", "pads_begin", "pads_end", "dst_shape"])
@pytest.mark.parametrize("value", [2**62, 2**63 - 1, 2**32])
def test_absurd_attribute_values_are_refused(tmp_path: pathlib.Path, name: str, value: int) -> None:
    document = changed(backward_data(), f"/graph/0/attrs/{name}/value", [value] * (4 if name == "dst_shape" else 2))
    with pytest.raises(ConversionErrors):
        ortconv.convert(write(tmp_path, document))


JUNK = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 2, 3, 7, 12, 2**31, 2**63 - 1, 2**63, 2**64, UNKNOWN, 10**25, 0.5, -0.0, 1e308),
        *("", "x", "f32", "bf16", "s32", "undef", "SAME_UPPER", "NXC", "OIX", "ReLU", "Convolution", "End", "constant"),
        *(
            [],
            [0],
            [1, 1],
            [UNKNOWN],
            [UNKNOWN, 3],
            [2, 2, 2],
            [0] * 12,
            [[1]],
            {},
            {"id": 0},
            {"type": "s64[]", "value": [3, 3]},
        ),
    ]
)


def places(value: object, parent: Any = None, key: Any = None) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    found = [] if parent is None else [(parent, key)]
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in entries:
        found += places(child, value, name)
    return found


def samples() -> list[Callable[[], Json]]:
    convolution = backward_data()
    convolution["graph"][0] |= {"kind": "Convolution"}
    for name in ("dst_shape", "output_padding"):
        del convolution["graph"][0]["attrs"][name]
    convolution["graph"][0]["outputs"] = [tensor(2, (1, 2, 7, 7))]
    convolution["graph"][0]["inputs"] = [tensor(0, (1, 4, 15, 15)), tensor(1, (2, 4, 3, 3))]
    chain = graph(
        op(0, "Add", [tensor(0), tensor(1, (3,))], [tensor(2)], {"auto_broadcast": ("string", "numpy")}),
        op(
            1,
            "StaticReshape",
            [tensor(2)],
            [tensor(3, (3, 2))],
            {"shape": ("s64[]", [3, -1]), "special_zero": ("bool", 0)},
        ),
        op(2, "StaticTranspose", [tensor(3, (3, 2))], [tensor(4)], {"order": ("s64[]", [-1, 0])}),
        op(3, "BiasAdd", [tensor(4), tensor(5, (3,))], [tensor(6)], {"data_format": ("string", "NXC")}),
        op(4, "TypeCast", [tensor(6)], [tensor(7, dtype="bf16")]),
        op(5, "End", [tensor(7, dtype="bf16")], []),
        input_ports=[0, 1, 5],
    )
    return [backward_data, lambda: copy.deepcopy(convolution), lambda: copy.deepcopy(chain)]


@given(sample=st.sampled_from(samples()), seeds=st.lists(st.integers(0, 10**9), min_size=1, max_size=4), data=st.data())
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
def test_damaged_documents_convert_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, sample: Callable[[], Json], seeds: list[int], data: st.DataObject
) -> None:
    document = sample()
    for seed in seeds:
        found = places(document)
        if not found:
            break
        container, key = random.Random(seed).choice(found)
        if seed % 5 == 0:
            del container[key]
        else:
            container[key] = copy.deepcopy(data.draw(JUNK))
    path = write(tmp_path_factory.mktemp("damaged"), document)
    # Any other exception is a failure, that of the checker included.
    with contextlib.suppress(ModelFormatError, ConversionErrors):
        ortconv.conversion(path)
    with contextlib.suppress(ModelFormatError, ConversionErrors):
        ortconv.conversion(path, semantics="runtime")
