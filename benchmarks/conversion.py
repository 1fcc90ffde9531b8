"""How long conversions take and how much memory, over graphs of many ops and over many bytes of weights.

Run ``python -m benchmarks.conversion``. Every case runs in a process of its own, from reading the IR to the written
ONNX file; the time is that of ``ortconv.conversion`` and ``save``, and the memory what the process takes beyond the
imported libraries. Sparse weights are a hole in the file: they take no room on the disk, and stay a hole.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import click

__all__ = ["CASES", "Case", "measure", "write_ir"]

_CHANNELS = 1024
_PERIOD = 97
"""After how many ops the constants of a chain repeat."""

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Case:
    """A synthetic network: a chain of elementwise ops, then linear layers.

    Attributes:
        name: What it shows.
        ops: Length of the chain.
        layers: How many linear layers there are.
        layer_bytes: Bytes of weights in each, a multiple of 4 KiB.
        dense: Whether the weights are random data; otherwise they are a hole in the file.
    """

    name: str
    ops: int = 0
    layers: int = 0
    layer_bytes: int = 0
    dense: bool = False


CASES = (
    Case("3,000 ops", ops=3000),
    Case("12,500 ops", ops=12500),
    Case("25,000 ops", ops=25000),
    Case("50,000 ops", ops=50000),
    Case("320 MiB of weights", layers=8, layer_bytes=40 * _MIB, dense=True),
    Case("1 GiB of weights", layers=16, layer_bytes=64 * _MIB, dense=True),
    Case("10 GiB of weights, sparse", layers=32, layer_bytes=320 * _MIB),
)


def write_ir(case: Case, path: pathlib.Path) -> None:
    """Writes the network of a case as an OpenVINO IR."""
    offsets = itertools.accumulate([case.layer_bytes] * case.layers, initial=0)
    constants = case.layers * case.layer_bytes
    layers: list[str] = []
    edges: list[str] = []

    def layer(type: str, inputs: list[tuple[int, str]], shape: str, data: str = "") -> int:
        """Adds a layer whose inputs are pairs of a layer's id and its shape; returns its id."""
        number = len(layers)
        ports = "".join(_port(index, dims) for index, (_, dims) in enumerate(inputs))
        edges.extend(
            f'<edge from-layer="{source}" from-port="9" to-layer="{number}" to-port="{index}"/>'
            for index, (source, _) in enumerate(inputs)
        )
        layers.append(
            f'<layer id="{number}" name="{type}_{number}" type="{type}" version="opset1">'
            f"{f'<data {data}/>' if data else ''}{f'<input>{ports}</input>' if ports else ''}"
            f"{'' if type == 'Result' else f'<output>{_port(9, shape)}</output>'}</layer>"
        )
        return number

    row, one = f"1,{_CHANNELS}", "1,1"
    x = layer("Parameter", [], row, f'shape="{row}" element_type="f32"')
    for index in range(case.ops):
        if index % 3 == 0:
            x = layer("ReLU", [(x, row)], row)
            continue
        place = constants + 4 * (index % _PERIOD)
        scale = layer("Const", [], one, f'element_type="f32" shape="{one}" offset="{place}" size="4"')
        x = layer("Multiply" if index % 3 == 1 else "Add", [(x, row), (scale, one)], row, 'auto_broadcast="numpy"')
    for offset, _ in zip(offsets, range(case.layers), strict=False):
        rows = case.layer_bytes // 4 // _CHANNELS
        shape = f"{rows},{_CHANNELS}"
        weights = layer(
            "Const", [], shape, f'element_type="f32" shape="{shape}" offset="{offset}" size="{case.layer_bytes}"'
        )
        out = f"1,{rows}"
        wide = layer("MatMul", [(x, row), (weights, shape)], out, 'transpose_a="false" transpose_b="true"')
        parts = layer("MatMul", [(wide, out), (weights, shape)], row, 'transpose_a="false" transpose_b="false"')
        x = layer("ReLU", [(parts, row)], row)
    layer("Result", [(x, row)], "")
    path.write_text(
        f'<?xml version="1.0"?>\n<net name="{case.name}" version="11">\n<layers>\n'
        + "\n".join(layers)
        + "\n</layers>\n<edges>\n"
        + "\n".join(edges)
        + "\n</edges>\n</net>\n"
    )
    with path.with_suffix(".bin").open("wb") as file:
        if case.dense:
            file.writelines(_noise(constants))
        file.seek(constants)
        file.write(b"".join(struct.pack("<f", 0.5 + index / _PERIOD) for index in range(_PERIOD)))


def _port(number: int, dims: str) -> str:
    inside = "".join(f"<dim>{dim}</dim>" for dim in dims.split(","))
    return f'<port id="{number}" precision="FP32">{inside}</port>'


def _noise(size: int) -> Iterator[bytes]:
    import numpy as np

    generator = np.random.default_rng(0)
    for start in range(0, size, _MIB):
        yield generator.standard_normal(min(_MIB, size - start) // 4, np.float32).tobytes()


def measure(case: Case, folder: pathlib.Path) -> dict[str, float]:
    """Converts a case in a process of its own.

    Returns:
        Seconds of the clock and of the processor, and the peak of memory in MiB beyond the imported libraries.
    """
    source = folder / "model.xml"
    write_ir(case, source)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.conversion", "--worker", str(source)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _worker(source: pathlib.Path) -> dict[str, float]:
    import resource
    import time

    import onnx_ir  # noqa: F401  (imports are no part of a conversion)

    import ortconv

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    ortconv.conversion  # noqa: B018
    before, clock, processor = peak(), time.perf_counter(), time.process_time()
    ortconv.conversion(source).save(source.with_suffix(".onnx"))
    return {
        "seconds": time.perf_counter() - clock,
        "cpu_seconds": time.process_time() - processor,
        "peak_mib": peak() - before,
    }


@click.command()
@click.option("--case", "texts", multiple=True, metavar="TEXT", help="Only cases with this in their name; repeatable.")
@click.option("--worker", type=click.Path(path_type=pathlib.Path), hidden=True)
def main(texts: tuple[str, ...], worker: pathlib.Path | None) -> None:
    """Measure conversions of synthetic networks and print a table in Markdown."""
    if worker is not None:
        click.echo(json.dumps(_worker(worker)))
        return
    click.echo("| network | seconds | processor | memory |\n|---|--:|--:|--:|")
    for case in CASES:
        if texts and not any(text in case.name for text in texts):
            continue
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ortconv-conversion-"))
        try:
            found = measure(case, folder)
        finally:
            shutil.rmtree(folder)
        click.echo(
            f"| {case.name} | {found['seconds']:.2f} s | {found['cpu_seconds']:.2f} s | {found['peak_mib']:.0f} MiB |"
        )


if __name__ == "__main__":
    main()
