"""Whole graphs: what others need stays, subgraphs and functions, names, metadata and declared sizes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import ortconv
from ortconv.optimizer import optimization
from tests.optimizer.models import CT, TO_SHAPE, assert_same, parsed, rand


def test_values_that_others_need_stay() -> None:
    model = parsed(
        """g (float[N,H,W,2] x) => (float[N,3,P,Q] y, float[N,2,H,W] t, float[N,P,Q,3] z) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = ConvTranspose <strides = [2, 2]> (t, w)
        y = Relu (c)
        z = Transpose <perm = [0, 2, 3, 1]> (c) }""",
        w=rand(2, 3, 3, 3),
    )
    done = assert_same(model, {"x": rand(1, 3, 4, 2)}, ops=["Transpose", CT, "Relu", "Transpose"])
    assert done.outcomes[0].kept == (
        "Transpose t: t is an output of its graph",
        "Transpose z: c has 2 uses",
        "Relu y: c has 2 uses",
    )


@pytest.mark.parametrize("node", ["y = Add (c, a)", "y = Slice (c, s, e, i)", "y = Pad (c, p)", "y = Transpose (c)"])
def test_graph_outputs_in_the_middle_stay(node: str) -> None:
    model = parsed(
        f"g (float[N,2,L] x) => (float[A,B,C] y, float[A,B,C] c) {{ c = ConvTranspose (x, w)\n{node} }}",
        w=rand(2, 3, 3),
        a=rand(3, 1),
        s=[1],
        e=[-1],
        i=[2],
        p=[0, 0, 0, 0, 0, 2],
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.output[1].type.tensor_type.ClearField("shape")
    for output in model.graph.output:
        for name in "PQR" if output.name == "y" else "STU":
            output.type.tensor_type.shape.dim.add().dim_param = name
    done = assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, node.split()[2]])
    assert "c is an output of its graph" in done.outcomes[0].kept[0]


def test_a_chain_folds_completely() -> None:
    model = parsed(
        """g (float[N,H,W,2] x) => (float[N,P,Q,2] y) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = ConvTranspose <strides = [2, 2]> (t, w)
        d = Slice (c, s, e, i)
        f = Add (d, a)
        r = Transpose <perm = [0, 2, 3, 1]> (f)
        k = Tanh (r)
        u = Transpose <perm = [0, 3, 1, 2]> (k)
        v = ConvTranspose <strides = [3, 1], output_padding = [2, 0]> (u, w2, b)
        y = Transpose <perm = [0, 2, 3, 1]> (v) }""",
        w=rand(2, 3, 3, 3),
        w2=rand(3, 2, 3, 3),
        b=rand(2),
        a=rand(3, 1, 1),
        s=[1, 1],
        e=[-1, -1],
        i=[2, 3],
    )
    assert_same(model, {"x": rand(1, 3, 4, 2)}, {"x": rand(2, 1, 1, 2)}, ops=[CT, "Tanh", CT])


def test_sizes_pass_from_node_to_node() -> None:
    model = parsed(
        """g (float[1,2,5] x) => (float[1,2,Q] y) {
        c = ConvTranspose <strides = [2], auto_pad = "SAME_UPPER"> (x, w)
        r = Tanh (c)
        d = ConvTranspose <strides = [2]> (r, w2)
        y = Slice (d, s, e, i) }""",
        w=rand(2, 3, 3),
        w2=rand(3, 2, 3),
        s=[1],
        e=[19],
        i=[2],
    )
    assert_same(model, {"x": rand(1, 2, 5)}, ops=[CT, "Tanh", CT])


def test_with_and_without_bias_in_one_model() -> None:
    model = parsed(
        "g (float[N,2,L] x) => (float[N,2,P] y) { c = ConvTranspose (x, w)\ny = ConvTranspose (c, v, b) }",
        w=rand(2, 3, 3),
        v=rand(3, 2, 2),
        b=rand(2),
    )
    assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, CT])


def test_a_node_of_ours_that_was_there_already() -> None:
    first = optimization(parsed("g (float[N,2,L] x) => (float[N,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3)))
    model = first.to_proto()
    model.graph.node.extend(
        [
            onnx.helper.make_node("Tanh", ["y"], ["r"]),
            onnx.helper.make_node("ConvTranspose", ["r", "v", "b"], ["z"], strides=[2]),
        ]
    )
    model.graph.output[0].name = "z"
    model.graph.initializer.append(onnx.numpy_helper.from_array(rand(3, 3, 2), "v"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(rand(3), "b"))
    assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, "Tanh", CT])


def test_a_transpose_between_two_nodes_folds_once() -> None:
    model = parsed(
        """g (float[N,2,L] x) => (float[P,Q,N] y) {
        c = ConvTranspose <strides = [2]> (x, w)
        t = Transpose <perm = [1, 0, 2]> (c)
        d = ConvTranspose <output_shape = [9]> (t, v, b)
        u = Transpose <perm = [1, 2, 0]> (d)
        y = Add (u, a) }""",
        w=rand(2, 2, 3),
        v=rand(2, 3, 3),
        b=np.zeros(3, np.float32),
        a=rand(3, 1, 1),
    )
    done = assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, TO_SHAPE])
    assert [len(outcome.folded) for outcome in done.outcomes] == [1, 2]


BRANCHES = """g (float[N,2,L] x, bool q) => (float[N,3,P] y) {
    o = ConvTranspose <strides = [2]> (x, w)
    y = If (q) <
        then_branch = yes () => (float[N,3,P] r) { c = ConvTranspose <strides = [2]> (x, w)  r = Add (c, a) },
        else_branch = no () => (float[N,3,P] r) { r = Add (o, a) }
    > }"""


@pytest.mark.parametrize("truth", [True, False])
def test_subgraphs(truth: bool) -> None:
    model = parsed(BRANCHES, w=rand(2, 3, 3), a=rand(3, 1))
    done = assert_same(model, {"x": rand(2, 2, 3), "q": np.array(truth)}, ops=[CT, "If", CT, "Add"])
    assert [outcome.folded for outcome in done.outcomes] == [(), ("Add r as bias",)]
    assert done.outcomes[0].kept == ("Add r: it stands in another graph",)


def test_nodes_in_functions_are_left() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "own": 1]>
        g (float[N,2,L] x, float[2,3,3] w) => (float[N,3,P] y) { y = own.up (x, w) }
        <opset_import: ["": 21], domain: "own"> up (p, q) => (r) { r = ConvTranspose (p, q) }"""
    )
    (outcome,) = assert_same(model, {"x": rand(1, 2, 3), "w": rand(2, 3, 3)}, ops=["ortconv:up"]).outcomes
    assert outcome.becomes == ""
    assert "in a function" in outcome.reason


def test_names_and_metadata_are_kept() -> None:
    model = parsed(
        "g (float[N,2,L] x) => (float[N,3,P] y) { c = ConvTranspose (x, w)\nr = Add (c, a)\ny = Tanh (r) }",
        w=rand(2, 3, 3),
        a=rand(3, 1),
    )
    model.producer_name, model.doc_string, model.graph.doc_string = "maker", "about", "the graph"
    model.metadata_props.add(key="k", value="v")
    node = model.graph.node[0]
    node.name, node.doc_string = "decoder/up", "a node"
    node.metadata_props.add(key="scope", value="decoder")
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("r", 1, ["N", 3, "P"]))
    result = assert_same(model, {"x": rand(1, 2, 3)}, ops=[CT, "Tanh"]).to_proto()
    made = result.graph.node[0]
    assert (made.name, made.doc_string, list(made.output)) == ("decoder/up", "a node", ["r"])
    assert [(entry.key, entry.value) for entry in made.metadata_props] == [("scope", "decoder")]
    assert (result.producer_name, result.doc_string, result.graph.doc_string) == ("maker", "about", "the graph")
    assert [(entry.key, entry.value) for entry in result.metadata_props] == [("k", "v")]
    assert result.graph.output == model.graph.output
    assert result.graph.input == model.graph.input
    assert (result.ir_version, result.opset_import[0].version) == (10, 21)


def test_sizes_that_shape_inference_gets_wrong() -> None:
    text = (
        "g (float[1,2,5] x) => (float[1,3,P] y) { c = ConvTranspose "
        '<strides = [3], auto_pad = "SAME_UPPER", output_padding = [1]> (x, w)\ny = Tanh (c) }'
    )
    model = parsed(text, w=rand(2, 3, 4))
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("c", 1, [1, 3, 16]))
    assert_same(model, {"x": rand(1, 2, 5)}, ops=[CT, "Tanh"])


def test_wrong_declarations_further_down_are_dropped() -> None:
    text = """g (float[1,2,5] x) => (float[1,3,P] y) {
        c = ConvTranspose <strides = [3], auto_pad = "SAME_UPPER", output_padding = [1]> (x, w)
        r = Tanh (c)
        d = Sigmoid (r)
        y = ConvTranspose <strides = [2]> (d, v) }"""
    model = onnx.shape_inference.infer_shapes(parsed(text, w=rand(2, 3, 4), v=rand(3, 3, 2)))
    declared = {entry.name: entry.type.tensor_type.shape.dim[2].dim_value for entry in model.graph.value_info}
    assert declared == {"c": 16, "r": 16, "d": 16}  # ONNX Runtime computes 15.
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "P"
    assert_same(model, {"x": rand(1, 2, 5)}, ops=[CT, "Tanh", "Sigmoid", CT])


def test_a_declared_output_that_contradicts_is_refused() -> None:
    model = parsed(
        'g (float[1,2,5] x) => (float[1,3,16] y) { y = ConvTranspose <strides = [3], auto_pad = "SAME_UPPER", '
        "output_padding = [1]> (x, w) }",
        w=rand(2, 3, 4),
    )
    with pytest.raises(ortconv.ModelFormatError) as caught:
        optimization(model)
    assert caught.value.where == "output y"
    assert "'16'" in caught.value.problem
    assert "'15'" in caught.value.problem


def test_nothing_reads_sizes_behind_a_node_that_misleads_shape_inference() -> None:
    model = parsed(
        """g (float[1,2,5] x, float[2,3,K] w) => (float[1,3,P] y) {
        c = ConvTranspose <strides = [3], auto_pad = "SAME_UPPER", output_padding = [1]> (x, w)
        y = ConvTranspose <strides = [2]> (c, v) }""",
        v=rand(3, 3, 2),
    )
    done = assert_same(model, {"x": rand(1, 2, 5), "w": rand(2, 3, 4)}, ops=["ConvTranspose"] * 2)
    assert "kernel is not known" in done.outcomes[0].reason
    assert "it may read from c" in done.outcomes[1].reason


@pytest.mark.parametrize("lossy", ["sparse_initializer", "training_info", "configuration", "devices", "body", "domain"])
def test_what_would_be_lost_is_refused(lossy: str) -> None:
    model = parsed("g (float[1,2,L] x) => (float[1,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3))
    if lossy == "sparse_initializer":
        model.graph.sparse_initializer.add().dims.append(1)
    elif lossy == "training_info":
        model.training_info.add()
    elif lossy == "configuration":
        model.configuration.add(name="two", num_devices=2)
    elif lossy == "devices":
        model.graph.node[0].device_configurations.add(configuration_id="two")
    elif lossy == "body":
        node = onnx.helper.make_node("If", ["c"], ["y"])
        for branch in ("then_branch", "else_branch"):
            node.attribute.add(name=branch, type=onnx.AttributeProto.GRAPH, ref_attr_name=branch)
        imports = [onnx.helper.make_opsetid("", 21)]
        attributes = ["then_branch", "else_branch"]
        model.functions.append(onnx.helper.make_function("own", "f", ["c"], ["y"], [node], imports, attributes))
    else:
        model.opset_import.add(domain="org.ortconv", version=2)
        ours = optimization(model).to_proto()
        model.graph.node.append(ours.graph.node[0])
        model.graph.node[1].output[0] = "z"
    with pytest.raises(ortconv.ModelFormatError, match="allowed: "):
        optimization(model)


def test_our_domain_in_what_onnx_runtime_saved_after_a_session_with_the_plugin() -> None:
    model = parsed("g (float[1,2,L] x) => (float[1,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3))
    model.opset_import.add(domain="org.ortconv", version=1000)
    done = assert_same(model, {"x": rand(1, 2, 5)}, ops=[CT])
    assert {each.domain: each.version for each in done.to_proto().opset_import}["org.ortconv"] == 1
