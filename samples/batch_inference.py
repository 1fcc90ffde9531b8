"""Runs a converted model over a folder of pictures, on the cores of a machine or on a cluster, with Ray Data.

    pip install "ortconv[cpu,serve]"
    python samples/batch_inference.py network.onnx pictures results --actors 2 --threads 1

Each actor has one session. The model takes float32 pictures of RGB between 0 and 1, [N, 3, height, width]; pictures are
scaled to its size. Each picture's outputs are written to results/NAME.npz, whole or not at all. A run that is started
again goes on with the pictures that have no results. On a cluster (--address auto), the folders have to be on a file
system that all nodes share. --actors 0 works in this process, without Ray.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import pathlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import rich.progress
from PIL import Image

import ortconv

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}


class Predictor:
    """Reads pictures, runs the model on them, and writes the results; an actor of Ray's has one.

    Args:
        model: Path of the ONNX file.
        folder: Where the results go.
        size: Height and width for a model that leaves them open.
        threads: Threads of the session.
    """

    def __init__(self, model: str, folder: str, size: tuple[int, int] | None, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = ortconv.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        declared, *others = self._session.get_inputs()
        if others or len(declared.shape) != 4:
            raise ValueError(
                f"{model}: takes {[each.name for each in (declared, *others)]}; allowed: [N, 3, H, W] alone"
            )
        batch, channels, height, width = declared.shape
        if channels != 3 or declared.type != "tensor(float)":
            raise ValueError(
                f"{model}: input {declared.name} is {declared.type} {declared.shape}; allowed: [N, 3, H, W]"
            )
        if size is None and not (isinstance(height, int) and isinstance(width, int)):
            raise ValueError(f"{model}: input {declared.name} is {declared.shape}; choose a size with --size 224x224")
        self._size = (height, width) if size is None else size
        self._at_once = batch if isinstance(batch, int) else None
        self._input = declared.name
        self._outputs = [output.name for output in self._session.get_outputs()]
        self._folder = pathlib.Path(folder)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Takes the paths of a batch of pictures; returns what is wrong with each, or "", when results are written."""
        pictures, problems = {}, []
        for path in map(str, batch["path"]):
            try:
                pictures[path] = self._read(path)
                problems.append("")
            except OSError as error:  # One broken file does not stop the others.
                problems.append(f"{path}: {error}")
        if pictures:
            self._run(list(pictures), np.stack(list(pictures.values())))
        return {"problem": problems}

    def _run(self, paths: list[str], pictures: np.ndarray) -> None:
        step = self._at_once or len(paths)
        for begin in range(0, len(paths), step):
            part = pictures[begin : begin + step]
            missing = step - len(part)  # A model of fixed batches gets full ones; what is too much is dropped.
            full = np.concatenate([part, np.repeat(part[:1], missing, axis=0)])
            results = self._session.run(self._outputs, {self._input: full})
            for number, path in enumerate(paths[begin : begin + step]):
                outputs = {name: found[number] for name, found in zip(self._outputs, results, strict=True)}
                self._write(path, outputs)

    def _read(self, path: str) -> np.ndarray:
        height, width = self._size
        with Image.open(path) as image:
            pixels = image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(pixels, np.float32).transpose(2, 0, 1) / 255

    def _write(self, path: str, outputs: dict[str, np.ndarray]) -> None:
        target = result_of(path, self._folder)
        with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".part", delete=False) as file:
            np.savez(file, **outputs)
        os.replace(file.name, target)


def result_of(picture: str | os.PathLike[str], folder: pathlib.Path) -> pathlib.Path:
    """Returns the file for the results of a picture."""
    return folder / f"{pathlib.Path(picture).name}.npz"


def in_this_process(paths: list[str], predict: Predictor, batch: int) -> Iterator[list[str]]:
    """Runs the model here; yields what is wrong with each picture, or "", for some after the others."""
    for begin in range(0, len(paths), batch):
        yield predict({"path": paths[begin : begin + batch]})["problem"]


def with_ray(
    paths: list[str], how: dict[str, Any], batch: int, actors: int, address: str | None
) -> Iterator[list[str]]:
    """Runs the model in a pool of actors; yields what `in_this_process` does."""
    import ray
    import ray.data

    cpus = None if address else actors * how["threads"] + 1  # one for what hands out the work
    ray.init(address=address, num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        blocks = min(len(paths), max(actors, min(math.ceil(len(paths) / batch), 50 * actors)))
        pictures = ray.data.from_items([{"path": path} for path in paths], override_num_blocks=blocks)
        done = pictures.map_batches(
            Predictor,
            fn_constructor_kwargs=how,
            batch_size=batch,
            compute=ray.data.ActorPoolStrategy(size=actors),
            num_cpus=how["threads"],
        )
        for part in done.iter_batches(batch_size=None):
            yield list(part["problem"])
    finally:
        ray.shutdown()


def shown(done: Iterable[list[str]], total: int) -> Iterator[list[str]]:
    """Shows how many pictures are done, on a terminal."""
    with rich.progress.Progress(
        *rich.progress.Progress.get_default_columns(), rich.progress.MofNCompleteColumn(), disable=not os.isatty(2)
    ) as bar:
        task = bar.add_task("pictures", total=total)
        for part in done:
            bar.advance(task, len(part))
            yield part


def size(text: str) -> tuple[int, int]:
    """Parses HEIGHTxWIDTH."""
    height, width = map(int, text.split("x"))
    return height, width


def main() -> None:
    """Runs the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("pictures", type=pathlib.Path, help="folder of pictures")
    parser.add_argument("results", type=pathlib.Path, help="folder of results, which is created")
    parser.add_argument("--actors", type=int, default=2, help="processes with a session each; 0: this process")
    parser.add_argument("--threads", type=int, default=1, help="threads of each session")
    parser.add_argument("--batch", type=int, default=8, help="pictures at once")
    parser.add_argument("--size", type=size, metavar="HxW", help="for a model that leaves height and width open")
    parser.add_argument("--address", help="of a Ray cluster, auto: that of this machine; default: a Ray of its own")
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    for stale in given.results.glob("*.part"):  # of a run that was killed
        stale.unlink()
    paths = sorted(path for path in given.pictures.absolute().iterdir() if path.suffix.lower() in SUFFIXES)
    todo = [str(path) for path in paths if not result_of(path, given.results).exists()]
    print(f"{len(paths)} pictures, {len(paths) - len(todo)} of them done before")
    if not todo:
        return
    how = {
        **{"model": str(given.model.absolute()), "folder": str(given.results.absolute())},
        **{"size": given.size, "threads": given.threads},
    }
    try:
        predict = Predictor(**how)  # refuses a model once, that each actor would refuse
    except (ValueError, ortconv.OrtconvError) as error:
        raise SystemExit(f"error: {error}") from error
    if given.actors:
        ran = with_ray(todo, how, given.batch, given.actors, given.address)
    else:
        ran = in_this_process(todo, predict, given.batch)
    begin = time.perf_counter()
    times, problems = [], []
    for part in shown(ran, len(todo)):
        times.append((time.perf_counter(), len(part)))
        problems += [problem for problem in part if problem]
    print(f"{len(todo) - len(problems)} pictures in {time.perf_counter() - begin:.1f} s")
    if len(times) > 1:  # without the start of sessions and actors, and their end
        count = sum(count for _, count in times[1:])
        print(f"{count / (times[-1][0] - times[0][0]):.1f} pictures/s between the first results and the last")
    if problems:
        raise SystemExit("\n".join(f"error: {problem}" for problem in problems))


if __name__ == "__main__":
    main()
