"""The code in docs/ does what the text says, and links lead somewhere."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest

import ortconv
from tests.folders import ROOT

README = ROOT / "README.md"
DOCS = README.parent / "docs"


def python_blocks(name: str) -> list[str]:
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def language_model(vocabulary: int = 50, heads: int = 2, size: int = 8) -> Any:
    """A stateful model of one layer, as optimum-intel exports them: its cache is states, reordered by beam_idx."""
    openvino = pytest.importorskip("openvino", reason="the model is made and judged by OpenVINO")
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


def test_generation_gives_the_tokens_of_openvino(tmp_path: pathlib.Path) -> None:
    openvino = pytest.importorskip("openvino", reason="the model is made and judged by OpenVINO")
    model = language_model()
    openvino.save_model(model, tmp_path / "network.xml", compress_to_fp16=False)
    ortconv.conversion(tmp_path / "network.xml").save(tmp_path / "network.onnx")
    (code,) = python_blocks("language_models.md")
    names: dict[str, Any] = {}
    exec(code, names)
    prompts, count = [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], 12
    found = names["generate"](str(tmp_path / "network.onnx"), prompts, count)

    exact = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}
    request = openvino.Core().compile_model(model, "CPU", exact).create_infer_request()
    tokens, past, expected = np.array(prompts), 0, []
    for _ in range(count):
        now = past + tokens.shape[1]
        request.infer(
            {
                "input_ids": tokens,
                "attention_mask": np.ones((2, now), np.int64),
                "position_ids": np.tile(np.arange(past, now), (2, 1)),
                "beam_idx": np.arange(2, dtype=np.int32),
            }
        )
        tokens, past = request.get_tensor("logits").data[:, -1].argmax(-1)[:, None], now
        expected.append(tokens)
    np.testing.assert_array_equal(found, np.concatenate(expected, 1))
    assert len(np.unique(found)) > 5, "a model that repeats itself shows nothing"


@pytest.mark.parametrize("path", [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))], ids=lambda path: path.name)
def test_links_lead_somewhere(path: pathlib.Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_paths_of_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = [name for name in re.findall(r"`([^`\s]*/[^`\s]*)`", text) if "<" not in name]
    folders = re.findall(r"`([^`\s]*)/<\w+>\.py`", text)
    assert len(paths) > 30
    assert [name for name in {*paths, *folders} if not (ROOT / name).exists()] == []
