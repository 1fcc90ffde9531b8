"""Binding source nodes to lowerings, and lowering a graph made by hand."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import onnx_ir as ir
import pytest

from ortconv.errors import (
    ConversionErrors,
    MisfitError,
    NodeRef,
    ShapeError,
    UnsupportedAttributeError,
    UnsupportedOpError,
)
from ortconv.frontend.attributes import coerce_text, coerce_typed
from ortconv.frontend.registry import Registry
from ortconv.frontend.source_graph import SourceGraph, SourceNode, SourceOutput, SourceValue
from ortconv.graph.builder import Builder, Ints
from ortconv.lowering import lower
from ortconv.options import Options

FLOAT = ir.DataType.FLOAT
Mode = Literal["Upper", "lower"]


@pytest.mark.parametrize(
    ("text", "annotation", "expected"),
    [
        ("2, 3", Ints, (2, 3)),
        ("", Ints, ()),
        (" 7 ", int, 7),
        ("-7.00", int, -7),
        ("1.0,2,", Ints, (1, 2)),
        ("1.9,-1e3, 2x,1 2", Ints, (1, -1, 2, 1)),
        ("1_000", int, 1),
        ("0.5f", float, 0.5),
        ("1_5", float, 1.0),
        ("5.E1", float, 50.0),
        ("-1e3", float, -1000.0),
        ("inf", float, math.inf),
        ("TRUE", bool, True),
        ("0", bool, False),
        ("uPPer", Mode, "Upper"),
        ("any", str | None, "any"),
    ],
)
def test_text_becomes_the_annotated_type(text: str, annotation: object, expected: object) -> None:
    assert coerce_text(text, annotation) == expected


@pytest.mark.parametrize(
    ("text", "annotation"),
    [
        ("2,x", Ints),
        ("1,,2", Ints),
        ("1,2, ", Ints),
        (",", Ints),
        (" ", Ints),
        ("+1", int),
        ("9" * 5000, int),
        ("1e", float),
        ("15e+", float),
        ("1e999", float),
        ("infinity", float),
        (".0", int),
        ("", int),
        ("9223372036854775808", int),
        ("nan", float),
        ("2", bool),
        ("middle", Mode),
    ],
)
def test_text_of_another_type_is_refused(text: str, annotation: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        coerce_text(text, annotation)


@pytest.mark.parametrize(
    ("raw", "annotation", "expected"),
    [([1, 2], Ints, (1, 2)), (3, float, 3.0), (1, bool, True), ("LOWER", Mode, "lower"), (5, int | None, 5)],
)
def test_typed_value_is_taken(raw: object, annotation: object, expected: object) -> None:
    result = coerce_typed(raw, annotation)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("raw", "annotation"),
    [
        ("1", int),
        (True, int),
        (1.0, int),
        (2**63, int),
        (math.nan, float),
        (2, bool),
        ([1, "2"], Ints),
        (1, Ints),
        (1, str),
        (3, Mode),
    ],
)
def test_typed_value_of_another_type_is_refused(raw: object, annotation: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        coerce_typed(raw, annotation)


REGISTRY = Registry("Test", coerce_typed)


@REGISTRY.lowering("Scale", since=2, until=4)
def scale(b: Builder, x: ir.Value, by: ir.Value | None = None, /, *, factor: float = 1.0, mode: Mode) -> ir.Value:
    """Mul."""
    assert by is None or mode == "lower"
    return b.op("Mul", x, by if by is not None else b.constant(np.float32(factor)))


@REGISTRY.lowering("Halves")
def halves(b: Builder, x: ir.Value, /) -> tuple[ir.Value, ...]:
    """Split."""
    return b.op("Split", x, outputs=2, axis=0, num_outputs=2)


@REGISTRY.lowering("Pass")
def same(b: Builder, x: ir.Value, /) -> ir.Value:
    """Nothing."""
    return x


@REGISTRY.lowering("Pool")
def pool(b: Builder, x: ir.Value, /, *, exclude_pad: bool) -> ir.Value:
    """AveragePool."""
    return b.op("AveragePool", x, kernel_shape=[1], count_include_pad=int(not exclude_pad))


@REGISTRY.lowering("Short")
def short(b: Builder, x: ir.Value, /) -> ir.Value:
    """Looks for an axis that is not there."""
    assert x.shape is not None
    return b.constant(x.shape[7])


@REGISTRY.lowering("Shaped")
def shaped(b: Builder, x: ir.Value, /) -> ir.Value:
    """Relu, of a shape that it knows."""
    return b.typed(b.op("Relu", x), FLOAT, [4])


REGISTRY.refuse("Dice", reason="its result is random")
REGISTRY.refuse("Shaped", reason="its shape is random")


def value(name: str, *shape: int | None) -> SourceValue:
    return SourceValue(name, FLOAT, shape or (4,))


def node(op: str, inputs: list[SourceValue | None], outputs: list[SourceValue], version: int = 1, **attributes: object):
    ref = NodeRef("net.test", op, f"the {op}", "7", f"v{version}")
    return SourceNode(ref, tuple(inputs), tuple(outputs), attributes, version)


def graph(inputs: list[SourceValue], outputs: list[SourceOutput], *nodes: SourceNode) -> SourceGraph:
    return SourceGraph("net.test", "test", "net", tuple(inputs), tuple(outputs), nodes)


def refusal(bad: SourceNode) -> Exception:
    inputs = [each for each in bad.inputs if each is not None and each.constant is None]
    outputs = [SourceOutput(each.name, each) for each in bad.outputs]
    with pytest.raises(ConversionErrors) as caught:
        lower(graph(inputs, outputs, bad), REGISTRY, Options())
    (error,) = caught.value.exceptions
    assert error.node == bad.ref
    assert str(error).startswith(f"net.test: {bad.ref.op_type} 'the {bad.ref.op_type}' (id 7, {bad.ref.version}): ")
    return error


def test_names_order_types_and_dims_are_the_sources() -> None:
    x, y, z = value("x", None, 3), value("between", None, 3), value("z", None, 3)
    lowered = lower(
        graph(
            [x],
            [SourceOutput("second", z), SourceOutput("first", y)],
            node("Scale", [x], [y], 3, mode="lower"),
            node("Scale", [y], [z], 2, mode="lower", factor=2),
        ),
        REGISTRY,
        Options(opset=20),
    )
    made = lowered.graph
    assert [each.name for each in made.inputs] == ["x"]
    assert [each.name for each in made.outputs] == ["second", "first"]
    for each in made.outputs:
        assert each.shape is not None
        assert not isinstance(each.shape[0], int)
        assert each.shape[1] == 3
    assert made.opset_imports == {"": 20}
    first, second = made
    assert first.metadata_props["ortconv.source.op_type"] == "Scale"
    assert first.metadata_props["ortconv.source.name"] == "the Scale"
    assert first.metadata_props["ortconv.source.id"] == "7"
    assert first.metadata_props["ortconv.source.version"] == "v3"
    assert first.metadata_props["ortconv.source.file"] == "net.test"
    assert second.inputs[0] is first.outputs[0]


def test_output_that_is_an_input_or_given_twice_is_copied() -> None:
    x, y = value("x"), value("y")
    outputs = [SourceOutput("a", y), SourceOutput("b", y), SourceOutput("c", x)]
    made = lower(graph([x], outputs, node("Pass", [x], [y])), REGISTRY, Options()).graph
    assert [each.name for each in made.outputs] == ["a", "b", "c"]
    assert [each.op_type for each in made] == ["Identity"] * 3
    assert all(each.inputs[0] is made.inputs[0] for each in made)


def test_constant_that_nothing_uses_is_left_out() -> None:
    x, y = value("x"), value("y")
    used = SourceValue("used", FLOAT, (4,), ir.tensor(np.ones(4, np.float32)))
    made = lower(
        graph([x], [SourceOutput("y", y)], node("Scale", [x, used], [y], 2, mode="lower")), REGISTRY, Options()
    ).graph
    assert list(made.initializers) == ["used"]


def test_unknown_op_is_refused() -> None:
    error = refusal(node("Nonsense", [value("x")], [value("y")]))
    assert isinstance(error, UnsupportedOpError)


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("Relu.", "exact"),
        ("Pad; symmetric as Concat.", "exact"),
        ("Conv with explicit pads.", "exact"),
        ("Reshape, Transpose, Reshape.", "composed"),
        ("A formula of Erf.", "composed"),
        ("Nonsense.", "composed"),
    ],
)
def test_docstring_says_how_an_op_is_converted(doc: str, expected: str) -> None:
    def lowering(b: Builder, x: ir.Value, /) -> ir.Value:
        return x

    lowering.__doc__ = doc
    registry = Registry("Test", coerce_typed)
    registry.lowering("Op")(lowering)
    registry.lowering("Other", how="plugin")(lowering)
    assert [each.how for each in registry] == [expected, "plugin"]


def test_op_refused_with_a_reason_says_it() -> None:
    error = refusal(node("Dice", [value("x")], [value("y")]))
    assert isinstance(error, UnsupportedOpError)
    assert error.problem == "Test op Dice is not supported: its result is random."


def test_versions_without_a_lowering_are_refused_with_the_reason() -> None:
    error = refusal(node("Shaped", [value("x")], [value("y")], 2))
    assert isinstance(error, UnsupportedOpError)
    assert error.problem == "version 2 of Shaped is not supported: its shape is random."


def test_refusing_twice_is_a_bug() -> None:
    with pytest.raises(ValueError, match="Dice is refused twice"):
        REGISTRY.refuse("Dice", reason="it rolls")


@pytest.mark.parametrize("version", [1, 5])
def test_version_that_no_lowering_covers_is_refused(version: int) -> None:
    error = refusal(node("Scale", [value("x")], [value("y")], version, mode="lower"))
    assert isinstance(error, UnsupportedOpError)
    assert "allowed: 2-4" in str(error)


def test_unknown_attribute_is_refused() -> None:
    error = refusal(node("Scale", [value("x")], [value("y")], 2, mode="lower", power=3))
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value, error.allowed) == ("power", 3, "only the attributes factor, mode")


def test_attribute_of_another_type_is_refused() -> None:
    error = refusal(node("Scale", [value("x")], [value("y")], 2, mode="sideways"))
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value, error.allowed) == ("mode", "sideways", "Upper, lower")


def test_attribute_in_two_spellings_is_refused() -> None:
    error = refusal(node("Pool", [value("x")], [value("y")], **{"exclude-pad": True, "exclude_pad": False}))
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == ("exclude_pad", False)


def test_missing_attribute_is_refused() -> None:
    error = refusal(node("Scale", [value("x")], [value("y")], 2))
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == ("mode", None)


def test_missing_and_surplus_inputs_are_refused() -> None:
    assert "input x (number 0) is missing" in str(refusal(node("Pass", [None], [value("y")])))
    assert "has 2 inputs; allowed: at most 1" in str(refusal(node("Pass", [value("x"), value("w")], [value("y")])))


def test_surplus_outputs_are_refused() -> None:
    assert "has 2 outputs; allowed: at most 1" in str(refusal(node("Pass", [value("x")], [value("y"), value("z")])))


def test_fewer_outputs_than_the_op_has_are_fine() -> None:
    x, y = value("x"), value("y", 2)
    made = lower(graph([x], [SourceOutput("y", y)], node("Halves", [x], [y])), REGISTRY, Options()).graph
    assert [each.name for each in made.outputs] == ["y"]


def test_declared_shape_that_contradicts_the_computed_one_is_refused() -> None:
    error = refusal(node("Shaped", [value("x")], [value("y", 5)]))
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("y", (5,))


def test_what_a_lowering_runs_into_is_an_error_of_the_node() -> None:
    error = refusal(node("Short", [value("x")], [value("y")]))
    assert isinstance(error, MisfitError)
    assert isinstance(error.__cause__, IndexError)
    assert "Short" in str(error)
    assert "its inputs and attributes do not fit its op: IndexError: tuple index out of range." in str(error)


def test_all_refused_nodes_are_reported_together() -> None:
    x, y, z = value("x"), value("y"), value("z")
    bad = graph([x], [SourceOutput("z", z)], node("Nonsense", [x], [y]), node("Scale", [y], [z], 2))
    with pytest.raises(ConversionErrors, match="2 of 2 nodes refused") as caught:
        lower(bad, REGISTRY, Options())
    assert [type(error) for error in caught.value.exceptions] == [UnsupportedOpError, UnsupportedAttributeError]
    assert len(str(caught.value).splitlines()) == 2


def test_registering_twice_is_a_bug() -> None:
    registry = Registry("Test", coerce_typed)
    registry.lowering("Op", since=1, until=3)(same)
    with pytest.raises(ValueError, match="registered twice"):
        registry.lowering("Op", since=2)(same)


def test_versions_without_a_parameter_do_not_have_it() -> None:
    registry = Registry("Test", coerce_typed)

    @registry.lowering("Op", since=1, without=["bias", "alpha"])
    @registry.lowering("Op", since=2)
    def lowering(
        b: Builder, x: ir.Value, bias: ir.Value | None = None, /, *, axis: int, alpha: float = 1.0
    ) -> ir.Value:
        return x

    old, new = registry
    assert (old.inputs, list(old.attributes)) == ((("x", False),), ["axis"])
    assert (new.inputs, list(new.attributes)) == ((("x", False), ("bias", True)), ["axis", "alpha"])
    with pytest.raises(ValueError, match="has no parameters beta"):
        registry.lowering("Op", since=3, without=["beta"])(lowering)


def test_names_stay_unique() -> None:
    builder = Builder(Options())
    assert [builder.unique("a"), builder.unique("a"), builder.unique("a_2"), builder.unique("a")] == [
        "a",
        "a_2",
        "a_2_2",
        "a_3",
    ]
