"""The examples of the documentation run, and print what the pages show."""

from __future__ import annotations

import pathlib
import socket
from typing import Any

import numpy as np
import pytest

import ortconv
from tests.docs.models import language_model, prepare
from tests.docs.pages import DOCS, blocks, run_examples

PAGES = [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))]
RUN = [page for page in PAGES if any(block.language in ("sh", "python") for block in blocks(DOCS / page))]
TUTORIAL = "tutorial/index.md"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in RUN if page != TUTORIAL])
def test_examples_print_what_is_shown(page: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("openvino", reason="the models of the examples are made by OpenVINO")
    prepare(page, tmp_path)
    run_examples(DOCS / page, tmp_path)


@pytest.mark.slow
def test_tutorial_leads_to_a_running_service(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("openvino", reason="the tutorial's model is made by OpenVINO")
    for module in ("fastapi", "uvicorn"):
        pytest.importorskip(module, reason="the tutorial's service uses it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert run_examples(DOCS / TUTORIAL, tmp_path, port) == 6


@pytest.mark.parametrize("page", PAGES)
def test_examples_are_in_languages_that_are_run(page: str) -> None:
    """Anything else would be shown and not tested."""
    assert {block.language for block in blocks(DOCS / page)} <= {"sh", "python", "text"}


def test_generation_gives_the_tokens_of_openvino(tmp_path: pathlib.Path) -> None:
    openvino = pytest.importorskip("openvino", reason="the model is made and judged by OpenVINO")
    model = language_model()
    openvino.save_model(model, tmp_path / "network.xml", compress_to_fp16=False)
    ortconv.conversion(tmp_path / "network.xml").save(tmp_path / "network.onnx")
    (code,) = [block.text for block in blocks(DOCS / "how_to" / "language_models.md") if block.language == "python"]
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
