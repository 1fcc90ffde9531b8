"""``ortconv bench``."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import statistics

import click

from ortconv import benchmarking
from ortconv.benchmarking import Bench, Timing
from ortconv.cli import comparisons, feeds, files, options, output
from ortconv.errors import InputError
from ortconv.model_io import input_data, loading
from ortconv.opset.domain import DOMAIN
from ortconv.runtime import default_shapes, library, provider
from ortconv.runtime.choices import Choice
from ortconv.verification.compare import Tolerance

__all__ = ["command"]


@click.command("bench", epilog="Example: ortconv bench network.onnx --shape image=1x3x256x256 --threads 1")
@click.argument("model", type=options.SOURCE, metavar="MODEL.onnx")
@feeds.feed_options
@options.providers
@options.tf32
@click.option("--threads", type=click.IntRange(1), help="Threads of each session. Default: ONNX Runtime's own choice.")
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True, help="How often each side is timed.")
@click.option(
    "--seconds",
    type=options.Number(0, 60, min_open=True),
    default=0.1,
    show_default=True,
    help="Approximate length of a turn; a single run may take longer.",
)
@click.option(
    "--tolerance",
    type=options.Number(0.0),
    help="Relative error up to which outputs agree. Default: integers must be equal; floats by the narrowest type in "
    "the file, 2e-5 for float32.",
)
@click.option(
    "--ep",
    is_flag=True,
    help="Compare ONNX Runtime alone with our execution provider, and with what `ortconv optimize` makes of the model.",
)
@options.file_to_write("--json", "json_file", metavar="FILE.json", help="Write all results as JSON.")
def command(
    model: pathlib.Path,
    input_texts: tuple[str, ...],
    shape_texts: tuple[str, ...],
    seed: int,
    providers: tuple[str, ...],
    tf32: bool,
    threads: int | None,
    rounds: int,
    seconds: float,
    tolerance: float | None,
    ep: bool,
    json_file: pathlib.Path | None,
) -> None:
    """Compare the speed of an ONNX file in ONNX Runtime alone and with our plugin, or with our execution provider.

    Without the plugin, operators of org.ortconv run by their function bodies. All sides get the same data and are
    timed in turns; times are medians. The outputs are compared first: if one differs, nothing is timed and the exit
    code is 1. The exit code is also 1 if the plugin is slower: if, of at least 7 rounds, it takes 1.1 times as long in
    three quarters, and its fastest round takes 1.1 times as long as the fastest without it. On a GPU, inputs and
    outputs stay in GPU memory while runs are timed.
    """
    if ep and providers:
        raise click.UsageError("--ep and --provider exclude each other: our execution provider computes on the CPU.")
    options.writable("--json", json_file)
    if not model.is_file():
        raise InputError(str(model), "is not a file.")
    options.refuse_source(model)
    names = options.provider_names(providers, tf32=tf32)
    proto = loading.load(model)
    ours = benchmarking.our_nodes(proto)
    allowed = benchmarking.tolerance_for(proto, tf32=tf32) if tolerance is None else Tolerance(tolerance)
    with output.progress(f"Loading {model}"):
        pair = benchmarking.Pair(model, threads or 0, providers=names, tf32=tf32, ep=ep)
    options.keep_apart([json_file], [model, *feeds.files_given(input_texts, pair.inputs)])
    given = feeds.parse_inputs(input_texts, pair.inputs)
    shapes = feeds.parse_shapes(shape_texts, pair.inputs)
    with output.bar(f"Measuring {model}", moving=False) as bar, feeds.integers_in_mind(pair.inputs, given):
        chosen = default_shapes.choose(pair.inputs, given, shapes, seed, pair.run)
        data = input_data.fill(pair.inputs, given, {**shapes, **chosen}, seed)
        found = pair.bench(data, rounds=rounds, seconds=seconds, tolerance=allowed, progress=bar)
    version = library.import_onnxruntime().__version__
    output.line(("model    ", "bold"), output.plain(model), f", {output.count(ours, 'node')} of {DOMAIN}")
    output.line(
        ("runtime  ", "bold"),
        f"ONNX Runtime {version}, {options.provider_titles(names)}, ",
        output.count(threads, "thread") if threads else "its own choice of threads",
    )
    if pair.problem:
        output.warning(f"the model is not optimized: {pair.problem}")
    if ep:
        claimed = [claim for claim in pair.claims if not claim.reason]
        fused = sum(len(claim.fused) for claim in claimed)
        output.line(
            ("provider ", "bold"), f"{provider.ep_name()}, {output.count(len(claimed), 'node')} and {fused} fused ones"
        )
    if pair.inputs:
        output.line()
        feeds.tell_chosen(chosen, pair.inputs)
        feeds.print_data(data, given, seed)
    _print(found, "provider" if ep else "plugin")
    slower = bool(ours or ep) and found.slower
    if slower:
        reason = "the provider is slower" if ep else "the plugin is slower than the function bodies"
        output.line(("SLOWER", "bold red"), f": {reason}: run the model without it")
    if not ours and not ep:
        output.warning(
            f"the model holds no operators of {DOMAIN}: both sides run the same kernels; `ortconv optimize` puts "
            "ours in place of ONNX's ConvTranspose"
        )
    if json_file:
        document = _document(found, model, version, names, threads, ours, slower=slower)
        if ep:
            document |= {"optimized": _seconds(found.optimized), "claims": [dataclasses.asdict(c) for c in pair.claims]}
        files.write_json(json_file, comparisons.finite(document))
    if not found.agrees or slower:
        raise click.exceptions.Exit(1)


def _print(found: Bench, side: str) -> None:
    output.line()
    rows = [(output.plain(each.name), *comparisons.cells(each)) for each in found.outputs]
    output.table(("output", *comparisons.NUMBERS, ""), rows, numbers=comparisons.NUMBERS)
    output.line()
    if found.stock is None or found.plugin is None:
        for each in found.outputs:
            if not each.agrees:
                problem = each.problem or f"{each.wrong} of {math.prod(each.shape)} elements"
                output.line(("DIFFERS", "bold red"), f": {output.plain(each.name)}: {problem}; nothing was timed")
        return
    columns = ("median ms", "quartiles", "fastest ms")
    times = [_times(f"no {side}", found.stock), _times(side, found.plugin)]
    times += [_times("optimized", found.optimized)] if found.optimized else []
    output.table(("run by", *columns), times, numbers=columns)
    output.line()
    if found.choices:
        computed = ("convolution", "sizes", "computed by", "estimated ms", "next best")
        output.table(computed, [_choice(each) for each in found.choices], numbers=computed[3:4])
        output.line()
    low, high = benchmarking.quartiles(found.ratios)
    ratio = statistics.median(found.ratios)
    output.line(
        f"the {side} is ",
        (f"{ratio:.2f}", "bold"),
        f" times as fast (quartiles of {len(found.ratios)} rounds: {low:.2f} to {high:.2f})",
    )


def _choice(choice: Choice) -> list[output.Cell]:
    """Returns the cells of a row: the implementation, its estimated time, and the one that was estimated next."""
    others = {name: seconds for name, seconds in choice.seconds.items() if name != choice.implementation}
    second = min(others, key=lambda name: others[name], default=None)
    return [
        output.plain(choice.node.removeprefix(f"{DOMAIN}.")),
        choice.sizes,
        choice.implementation,
        f"{choice.seconds[choice.implementation] * 1e3:.3g}",
        f"{second}, {others[second] * 1e3:.3g} ms" if second else "none",
    ]


def _times(name: str, timing: Timing) -> list[str]:
    low, high = benchmarking.quartiles(timing.seconds)
    return [
        name,
        f"{timing.median * 1e3:.4g}",
        f"{low * 1e3:.4g} to {high * 1e3:.4g}",
        f"{min(timing.seconds) * 1e3:.4g}",
    ]


def _document(
    found: Bench,
    model: pathlib.Path,
    version: str,
    providers: list[str],
    threads: int | None,
    ours: int,
    *,
    slower: bool,
) -> dict[str, object]:
    return {
        "model": str(model),
        "nodes_of_ours": ours,
        "onnxruntime": version,
        "providers": providers,
        "threads": threads,
        "agrees": found.agrees,
        "outputs": [
            {name: value for name, value in comparisons.fields(each).items() if name != "worst"}
            for each in found.outputs
        ],
        "no_plugin": _seconds(found.stock),
        "plugin": _seconds(found.plugin),
        "slower": slower,
        "ratio": statistics.median(found.ratios) if found.ratios else None,
        "convolutions": [dataclasses.asdict(each) for each in found.choices],
        "ratio_quartiles": benchmarking.quartiles(found.ratios) if found.ratios else None,
    }


def _seconds(timing: Timing | None) -> dict[str, object] | None:
    return {"median": timing.median, "rounds": timing.seconds} if timing else None
