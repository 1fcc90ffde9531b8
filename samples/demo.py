"""Converts the shipped sources, checks the models, runs them with and without the plugin, and compares.

    python samples/demo.py [FOLDER]

Writes the models and a picture, before and after, into FOLDER (demo_output by default); fails if anything differs.
"""

from __future__ import annotations

import os
import pathlib
import sys

import numpy as np
import picture
import unet_decoder
from rich.console import Console
from rich.table import Table

import ortconv

SOURCES = pathlib.Path(os.path.relpath(pathlib.Path(__file__).parent / "sources"))
BACKENDS = {"native": "plugin", "none": "no plugin"}


def cases() -> dict[pathlib.Path, tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Returns for each source its data and the constants that its file does not hold."""
    with np.load(SOURCES / "onednn_upsample.npz") as file:
        constants = dict(file)
    diff_dst = np.random.default_rng(1).standard_normal((1, 12, 16, 24)).astype(np.float32)
    return {
        SOURCES / "upsample_picture.xml": ({"picture": picture.landscape()}, {}),
        SOURCES / "unet_decoder.xml": (unet_decoder.features(61, 35), {}),
        SOURCES / "onednn_upsample.json": ({"diff_dst": diff_dst}, constants),
    }


def main(folder: pathlib.Path) -> int:
    console = Console()
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(box=None, pad_edge=False)
    for column in ("model", "nodes", "ours", "compared with", "run with", "max error", "verdict"):
        table.add_column(column, no_wrap=True)
    agrees = True
    notes: list[str] = []
    for source, (data, constants) in cases().items():
        conversion = ortconv.conversion(source, target="plugin", tensors=constants)
        path = folder / f"{source.stem}.onnx"
        conversion.save(path)
        ortconv.check(path)
        notes += conversion.warnings
        report = ortconv.verify(source, path, tensors=constants, data=data)
        ours = sum(node.domain == "org.ortconv" for node in conversion.model.graph)
        facts = [source.stem, str(conversion.model.graph.num_nodes()), str(ours), report.oracle.partition(",")[0]]
        for backend, comparisons in report.outputs.items():
            error = max(comparison.max_abs for comparison in comparisons)
            good = all(comparison.agrees for comparison in comparisons)
            verdict = "[green]agrees[/]" if good else "[red]DIFFERS[/]"
            table.add_row(*facts, BACKENDS[backend], f"{error:.1e}", verdict)
            facts = [""] * 4
        agrees = agrees and report.agrees and set(report.outputs) == set(BACKENDS)
    console.print(table)
    for note in notes:
        console.print(f"note: {note}", highlight=False, markup=False)
    before = picture.landscape()
    (after,) = ortconv.InferenceSession(folder / "upsample_picture.onnx").run(None, {"picture": before})
    picture.side_by_side(before, after, folder / "upsample_picture.png")
    console.print(f"Models and the picture {folder / 'upsample_picture.png'} are written; all pass onnx.checker.")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "demo_output")))
