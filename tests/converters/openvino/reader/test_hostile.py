"""Files that are not what they claim: one clear error each, in bounded time and memory."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest

from ortconv.converters.openvino import FRONTEND
from ortconv.errors import ModelFormatError, UnsupportedTypeError

MODEL = """<?xml version="1.0"?>
<net name="net" version="11">
<layers>
<layer id="0" name="data" type="Parameter" version="opset1">
<data shape="2,3" element_type="f32"/>
<output><port id="0" precision="FP32" names="data"><dim>2</dim><dim>3</dim></port></output>
</layer>
<layer id="1" name="weight" type="Const" version="opset1">
<data element_type="f32" shape="3" offset="4" size="12"/>
<output><port id="0" precision="FP32"><dim>3</dim></port></output>
</layer>
<layer id="2" name="sum" type="Add" version="opset1">
<data auto_broadcast="numpy"/>
<input><port id="0"><dim>2</dim><dim>3</dim></port><port id="1"><dim>3</dim></port></input>
<output><port id="2" precision="FP32"><dim>2</dim><dim>3</dim></port></output>
</layer>
<layer id="3" name="again" type="ReLU" version="opset1">
<input><port id="0"><dim>2</dim><dim>3</dim></port></input>
<output><port id="1" precision="FP32"><dim>2</dim><dim>3</dim></port></output>
</layer>
<layer id="4" name="out" type="Result" version="opset1">
<input><port id="0"><dim>2</dim><dim>3</dim></port></input>
</layer>
</layers>
<edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
<edge from-layer="3" from-port="1" to-layer="4" to-port="0"/>
</edges>
</net>
"""
WEIGHTS = bytes(16)
CONST = 'line 8: layer 1 "weight" (Const)'.replace('"', "'")

# A name, the text to replace, what replaces it, where the error says it is, and a pattern for the problem.
CASES = [
    ("root", '<net name="net" version="11">', '<nett name="net" version="11">', "column", "not well-formed"),
    (
        "version_7",
        'version="11"',
        'version="7"',
        "line 2: <net>",
        r"IR version 7 is not supported; allowed: 10, 11\. .* convert the original model again with a newer OpenVINO\.",
    ),
    ("version_12", 'version="11"', 'version="12"', "line 2: <net>", r"IR version 12 .* newer than this ortconv\."),
    ("version_text", 'version="11"', 'version="x"', "line 2: <net>", "attribute version = 'x' is not an integer"),
    ("version_missing", ' version="11"', "", "line 2: <net>", r"attribute version is missing\."),
    ("preprocess", "</layers>", '</layers><pre-process mean-precision="FP32"/>', "<pre-process>", "not supported"),
    ("no_layers", "layers>", "lairs>", "line 2: <net>", r"element <layers> is missing\."),
    ("id_missing", '<layer id="2" ', "<layer ", "line 12: <layer>", r"attribute id is missing\."),
    ("name_missing", ' name="sum"', "", "line 12: <layer>", r"attribute name is missing\."),
    ("type_missing", ' type="Add"', "", "line 12: <layer>", r"attribute type is missing\."),
    (
        "opset_missing",
        'type="Add" version="opset1"',
        'type="Add"',
        "line 12: <layer>",
        r"attribute version is missing\.",
    ),
    ("id_text", '<layer id="2"', '<layer id="two"', "line 12: <layer>", "attribute id = 'two'"),
    ("id_negative", '<layer id="2"', '<layer id="-2"', "line 12: <layer>", "attribute id = '-2'"),
    ("id_huge", '<layer id="2"', f'<layer id="{2**64}"', "line 12: <layer>", "attribute id = '1844"),
    ("id_digits", '<layer id="2"', f'<layer id="{"9" * 99999}"', "line 12: <layer>", r"\(100001 characters\)"),
    (
        "id_twice",
        '<layer id="2"',
        '<layer id="1"',
        "line 12: layer 1 'sum' (Add)",
        "id 1 is used twice; first on line 8",
    ),
    ("port_twice", '<port id="1"><dim>3', '<port id="0"><dim>3', "line 14: <port>", r"port id 0 is used twice\."),
    ("port_id", '<port id="1"><dim>3', "<port><dim>3", "line 14: <port>", r"attribute id is missing\."),
    (
        "dim_text",
        '"FP32"><dim>3',
        '"FP32"><dim>three',
        "line 10: <dim>",
        "dimension 'three' is malformed; allowed: a size",
    ),
    ("dim_empty", '"FP32"><dim>3', '"FP32"><dim>', "line 10: <dim>", "dimension '' is malformed"),
    ("dim_negative", '"FP32"><dim>3', '"FP32"><dim>-3', "line 10: <dim>", "dimension '-3' is malformed"),
    ("dim_nan", '"FP32"><dim>3', '"FP32"><dim>NaN', "line 10: <dim>", "dimension 'NaN' is malformed"),
    (
        "rank",
        "<dim>2</dim><dim>3</dim></port></input>",
        "<dim>1</dim>" * 33 + "</port></input>",
        "line 18",
        "33 dimensions",
    ),
    ("edge_layer", 'from-layer="0"', 'from-layer="77"', "line 26: <edge>", r"layer 77 does not exist\."),
    ("edge_target", 'to-layer="4"', 'to-layer="44"', "line 29: <edge>", r"layer 44 does not exist\."),
    (
        "edge_port",
        'from-port="2"',
        'from-port="0"',
        "line 28: <edge>",
        "layer 2 has no output port 0; its output ports: \\[2\\]",
    ),
    (
        "edge_input",
        'to-layer="4" to-port="0"',
        'to-layer="4" to-port="9"',
        "line 29",
        "no input port 9; its input ports: \\[0\\]",
    ),
    (
        "edge_result",
        'from-layer="3" from-port="1"',
        'from-layer="4" from-port="1"',
        "line 29",
        "its output ports: \\[\\]",
    ),
    ("edge_missing", ' to-port="1"', "", "line 27: <edge>", r"attribute to-port is missing\."),
    (
        "edge_twice",
        'to-layer="2" to-port="1"',
        'to-layer="2" to-port="0"',
        "line 27: <edge>",
        "a second edge ends in input",
    ),
    (
        "cycle",
        'from-layer="0" from-port="0"',
        'from-layer="3" from-port="1"',
        "layer 3 'again'",
        "circle: 3 'again', 2 'sum'",
    ),
    (
        "self_cycle",
        'from-layer="0" from-port="0"',
        'from-layer="2" from-port="2"',
        "layer 2 'sum'",
        r"circle: 2 'sum'\.",
    ),
    ("no_result", 'type="Result"', 'type="Sink"', "", "the model has no Result layer"),
    ("result_open", '<edge from-layer="3" from-port="1" to-layer="4" to-port="0"/>', "", "layer 4 'out'", "has 0"),
    (
        "no_input_port",
        '<port id="0"><dim>2</dim><dim>3</dim></port></input>\n</layer>\n</layers>',
        "</input></layer></layers>",
        "line 27: <edge>",
        "its input ports: \\[\\]",
    ),
    ("offset_past_end", 'offset="4"', 'offset="5"', CONST, "bytes 5 to 17 lie outside model.bin, which has 16 bytes"),
    ("offset_huge", 'offset="4"', f'offset="{2**63 - 1}"', CONST, "lie outside model.bin"),
    ("offset_negative", 'offset="4"', 'offset="-4"', "line 9: <data>", "attribute offset = '-4'"),
    ("offset_missing", ' offset="4"', "", "line 9: <data>", r"attribute offset is missing\."),
    ("size_missing", ' size="12"', "", "line 9: <data>", r"attribute size is missing\."),
    ("size_short", 'size="12"', 'size="8"', CONST, r"size = 8 contradicts shape \[3\] of f32, which takes 12 bytes"),
    ("size_long", 'size="12"', 'size="13"', CONST, "bytes 4 to 17 lie outside model.bin, which has 16 bytes"),
    ("size_huge", 'size="12"', f'size="{2**63 - 1}"', CONST, "lie outside model.bin"),
    ("const_shape", '"f32" shape="3"', '"f32" shape="4"', CONST, r"size = 12 contradicts shape \[4\] of f32"),
    ("const_dynamic", '"f32" shape="3"', '"f32" shape="-1"', CONST, "must be static"),
    ("const_rank", '"f32" shape="3"', '"f32" shape="..."', CONST, "must be static"),
    ("const_bad_shape", '"f32" shape="3"', '"f32" shape="3;1"', CONST, "attribute shape = '3;1' is malformed"),
    (
        "const_absurd",
        '"FP32"><dim>3</dim>',
        '"FP32">' + f"<dim>{2**63 - 1}</dim>" * 32,
        "line 10: <port>",
        r"at most 2\^59",
    ),
    ("const_no_data", '<data element_type="f32" shape="3" offset="4" size="12"/>', "", CONST, "<data> is missing"),
    (
        "type_unknown",
        'id="2" precision="FP32"',
        'id="2" precision="FP31"',
        "layer 2 'sum'",
        "precision 'FP31' is unknown",
    ),
    ("type_missing", 'id="2" precision="FP32"', 'id="2"', "layer 2 'sum'", "precision of output port 2 is missing"),
    (
        "type_differs",
        '<data element_type="f32"',
        '<data element_type="i64"',
        CONST,
        r"size = 12 contradicts shape \[3\] of i64",
    ),
    ("parameter_rank", 'shape="2,3"', f'shape="{"1," * 40}1"', "layer 0 'data'", "is malformed"),
    (
        "parameter_ports",
        '<output><port id="0" precision="FP32" names="data"><dim>2</dim><dim>3</dim></port>',
        '<output><port id="0" precision="FP32"/><port id="7" precision="FP32"/>',
        "layer 0 'data'",
        "this has 2",
    ),
    ("undefined_entity", 'name="sum"', 'name="&sum;"', "line 12, column", "undefined entity"),
    ("attribute_twice", 'name="sum"', 'name="sum" name="sum"', "line 12, column", "duplicate attribute"),
    ("truncated", "<edges>", "<edges", "line 26, column", "not well-formed"),
    ("nul", 'name="sum"', 'name="\0"', "line 12, column", "invalid token"),
    ("two_roots", "</net>", "</net><net/>", "line 31, column", "junk after document"),
]


def refusal(path: pathlib.Path) -> ModelFormatError:
    with pytest.raises(ModelFormatError) as caught:
        FRONTEND.read(path, {})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2000
    return caught.value


def test_the_model_that_the_cases_break_is_good(write_ir: Any) -> None:
    graph = FRONTEND.read(write_ir.text(MODEL, WEIGHTS), {})
    assert [node.ref.op_type for node in graph.nodes] == ["Add", "ReLU"]


@pytest.mark.parametrize(("old", "new", "where", "problem"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_broken_model_is_refused(write_ir: Any, old: str, new: str, where: str, problem: str) -> None:
    assert old in MODEL
    path = write_ir.text(MODEL.replace(old, new), WEIGHTS)
    error = refusal(path)
    assert error.path == str(path)
    assert where in error.where
    assert bool(error.where) == bool(where)
    assert re.search(problem, error.problem), error.problem


@pytest.mark.parametrize("precision", ["string", "nf4", "u2", "u3", "u6", "f4e2m1", "f8e8m0", "dynamic"])
def test_type_without_counterpart_is_refused_with_the_node(write_ir: Any, precision: str) -> None:
    text = MODEL.replace('<data element_type="f32"', f'<data element_type="{precision}"')
    path = write_ir.text(text.replace('"FP32"><dim>3', f'"{precision.upper()}"><dim>3'), WEIGHTS)
    with pytest.raises(UnsupportedTypeError) as caught:
        FRONTEND.read(path, {})
    error = caught.value
    assert (error.input, error.dtype) == ("output 0", precision)
    assert "f32" in error.allowed
    assert error.node is not None
    assert (error.node.file, error.node.id, error.node.name, error.node.op_type) == (str(path), "1", "weight", "Const")


def test_absurd_size_is_refused_before_anything_is_allocated(write_ir: Any) -> None:
    dims = [2**31] * 2
    text = MODEL.replace(
        '"f32" shape="3" offset="4" size="12"', f'"f32" shape="{dims[0]},{dims[1]}" offset="0" size="{2**63 - 1}"'
    )
    text = text.replace('"FP32"><dim>3</dim>', f'"FP32"><dim>{dims[0]}</dim><dim>{dims[1]}</dim>')
    assert "sizes whose product is at most 2^59" in refusal(write_ir.text(text, WEIGHTS)).problem
    text = text.replace(str(2**31), str(2**29))
    assert "lie outside model.bin" in refusal(write_ir.text(text, WEIGHTS)).problem
    text = text.replace(str(2**63 - 1), "12")
    assert "which takes 1152921504606846976 bytes" in refusal(write_ir.text(text, WEIGHTS)).problem


def test_missing_weights_are_refused(write_ir: Any) -> None:
    path = write_ir.text(MODEL)
    error = refusal(path)
    assert (error.path, error.where) == (str(path.with_suffix(".bin")), "")
    assert "does not exist" in error.problem


def test_missing_weights_do_not_matter_without_constants(write_ir: Any) -> None:
    empty = MODEL.replace('shape="3" offset="4" size="12"', 'shape="0" offset="4" size="1"').replace(
        '"FP32"><dim>3', '"FP32"><dim>0'
    )
    graph = FRONTEND.read(write_ir.text(empty), {})
    assert graph.nodes[0].inputs[1] is not None
    assert graph.nodes[0].inputs[1].constant is not None
    assert graph.nodes[0].inputs[1].constant.numpy().size == 0


def test_empty_weights_are_refused(write_ir: Any) -> None:
    assert "which has 0 bytes" in refusal(write_ir.text(MODEL, b"")).problem


def test_weights_that_are_a_folder_are_refused(write_ir: Any) -> None:
    path = write_ir.text(MODEL)
    path.with_suffix(".bin").mkdir()
    error = refusal(path)
    assert error.path == str(path.with_suffix(".bin"))
    assert "cannot be read" in error.problem


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"\xff\xfe<\0n\0e\0t\0", b"PK\x03\x04", b'{"version": 1}', b"<net", b"\0" * 64]
)
def test_file_that_is_no_xml_is_refused(write_ir: Any, text: bytes) -> None:
    path = write_ir.text(text)
    error = refusal(path)
    assert error.path == str(path)
    assert re.search("empty|not well-formed", error.problem)


def test_xml_that_is_no_ir_is_refused(write_ir: Any) -> None:
    error = refusal(write_ir.text("<svg/>"))
    assert (error.where, "root element must be <net>" in error.problem) == ("line 1: <svg>", True)


@pytest.mark.parametrize("declared", ["utf-8", "latin-1"])
def test_text_that_is_not_utf_8_is_refused(write_ir: Any, declared: str) -> None:
    text = MODEL.replace('version="1.0"?>', f'version="1.0" encoding="{declared}"?>').replace('"sum"', '"s\u00fcm"')
    error = refusal(write_ir.text(text.encode("latin-1"), WEIGHTS))
    assert error.where.startswith("line 12, column")
    assert "UTF-8" in error.problem
    assert FRONTEND.read(write_ir.text(text, WEIGHTS), {}).nodes[0].ref.name == "s\u00fcm"


def test_folder_and_absent_and_impossible_paths_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder.xml").mkdir()
    for path in (tmp_path / "folder.xml", tmp_path / "absent.xml", tmp_path / "nul\0.xml"):
        error = refusal(path)
        assert (error.path, error.where) == (str(path), "")
        assert "cannot be read" in error.problem


BOMB = """<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa">""" + "".join(
    f'<!ENTITY {chr(98 + level)} "{f"&{chr(97 + level)};" * 10}">' for level in range(12)
)


@pytest.mark.parametrize(
    "head",
    [
        BOMB + "]>",
        '<!DOCTYPE net SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE net [<!ENTITY % p SYSTEM "http://localhost/x">%p;]>',
        "<!DOCTYPE net>",
    ],
    ids=["bomb", "external", "parameter", "plain"],
)
def test_document_type_is_refused(write_ir: Any, head: str) -> None:
    error = refusal(write_ir.text(MODEL.replace("<net ", head + "<net ").replace('"sum"', '"&m;"'), WEIGHTS))
    assert error.where.startswith("line 2")
    assert "document type declaration ('net') is not allowed" in error.problem


def test_deep_nesting_is_refused(write_ir: Any) -> None:
    error = refusal(write_ir.text("<net>" * 1_000_000))
    assert "nested deeper than 256 levels" in error.problem


@pytest.mark.parametrize(("start", "stop"), [("<!--", "-->"), ('<net name="', '" version="11"/>'), ("<?x ", "?>")])
def test_endless_token_is_refused(write_ir: Any, start: str, stop: str) -> None:
    error = refusal(write_ir.text(start + "x" * (64 << 20) + stop))
    assert "longer than 8388608 bytes" in error.problem


def test_large_but_honest_file_is_read(write_ir: Any) -> None:
    padding = "<info/>" * 400_000 + " " * (20 << 20)
    graph = FRONTEND.read(write_ir.text(MODEL.replace("</net>", f"<rt_info>{padding}</rt_info></net>"), WEIGHTS), {})
    assert len(graph.nodes) == 2


def test_large_text_in_a_dim_is_refused(write_ir: Any) -> None:
    error = refusal(write_ir.text(MODEL.replace("<dim>2</dim>", f"<dim>{'2' * (20 << 20)}</dim>", 1), WEIGHTS))
    assert (error.where, "malformed" in error.problem) == ("line 6: <dim>", True)
