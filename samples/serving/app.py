"""A web service for a converted model: POST /predict takes and returns JSON.

    pip install "ortconv[cpu,serve]"
    ORTCONV_MODEL=unet_decoder.onnx uvicorn --app-dir samples/serving app:app --workers 2

    curl localhost:8000/predict -H 'content-type: application/json' -d '{"inputs": {"x": [[1.0, 2.0]]}}'
    {"outputs": {"y": [[0.5, 0.25]]}}

Each worker has one session; requests run in threads beside each other. Numbers that JSON lacks are the texts "NaN",
"Infinity" and "-Infinity", in requests and in answers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import fastapi
import numpy as np
import pydantic

import ortconv

TYPES = {
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(bool)": "bool"},
}
"""ONNX Runtime's names of element types -> NumPy's."""


class Request(pydantic.BaseModel):
    """Nested lists of numbers, by input."""

    inputs: dict[str, Any]


class Answer(pydantic.BaseModel):
    """Nested lists of numbers, by output."""

    outputs: dict[str, Any]


@contextlib.asynccontextmanager
async def load(app: fastapi.FastAPI) -> AsyncIterator[None]:
    """Loads the model that the environment variable ORTCONV_MODEL names, before the first request."""
    path = os.environ.get("ORTCONV_MODEL")
    if not path:
        raise RuntimeError("ORTCONV_MODEL is not set; it has to be the path of an ONNX file.")
    app.state.session = ortconv.InferenceSession(path, providers=["CPUExecutionProvider"])
    yield


app = fastapi.FastAPI(title="ortconv", lifespan=load)


@app.get("/health")
def health() -> dict[str, str]:
    """Answers as soon as the model is loaded."""
    return {"status": "ready"}


@app.get("/metadata")
def metadata() -> dict[str, list[dict[str, Any]]]:
    """Returns name, type and shape of each input and output."""
    session = app.state.session
    return {
        kind: [{"name": each.name, "type": TYPES.get(each.type, each.type), "shape": each.shape} for each in found]
        for kind, found in (("inputs", session.get_inputs()), ("outputs", session.get_outputs()))
    }


@app.post("/predict")
def predict(request: Request) -> Answer:
    """Runs the model; what does not fit its inputs is status 422, with the reason."""
    session = app.state.session
    declared = {each.name: each for each in session.get_inputs()}
    if request.inputs.keys() != declared.keys():
        raise unfit(f"inputs are {', '.join(request.inputs) or 'none'}; allowed: {', '.join(declared)}")
    feeds = {name: array(name, data, declared[name]) for name, data in request.inputs.items()}
    try:
        results = session.run(None, feeds)
    except Exception as error:  # ONNX Runtime's exception classes have no common base.
        raise unfit(f"the model fails: {error}") from error
    return Answer(
        outputs={each.name: listed(result) for each, result in zip(session.get_outputs(), results, strict=True)}
    )


def array(name: str, data: Any, declared: Any) -> np.ndarray:
    """Returns the data of an input, without changing a number."""
    if declared.type not in TYPES:
        raise unfit(f"input {name} has type {declared.type}, which this service does not take")
    dtype = np.dtype(TYPES[declared.type])
    try:
        given = np.array(data)
        given = np.array(data, float) if given.dtype.kind == "U" else given  # "NaN"
    except ValueError as error:
        raise unfit(f"input {name} is no nested list of numbers: {error}") from error
    if given.dtype.kind not in "biuf":
        raise unfit(f"input {name} is no nested list of numbers")
    with np.errstate(all="ignore"):
        converted = given.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(converted, given):
        raise unfit(f"input {name} has type {dtype}, which does not hold all of its numbers")
    sizes = declared.shape
    fits = len(sizes) == given.ndim and all(
        not isinstance(size, int) or size == found for size, found in zip(sizes, given.shape, strict=True)
    )
    if not fits:
        raise unfit(f"input {name} has shape {list(given.shape)}; allowed: {sizes}")
    return converted


def listed(result: np.ndarray) -> Any:
    """Returns a result as nested lists, with texts for numbers that JSON lacks."""
    if result.dtype.kind not in "biu":
        result = result.astype(np.float64)
        if not np.isfinite(result).all():
            names = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
            texts = [each if np.isfinite(each) else names.get(each, "NaN") for each in result.ravel().tolist()]
            return np.array(texts, object).reshape(result.shape).tolist()
    return result.tolist()


def unfit(problem: str) -> fastapi.HTTPException:
    """Returns the error of a request that does not fit the model."""
    return fastapi.HTTPException(422, f"{problem}.")
