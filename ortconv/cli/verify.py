"""``ortconv verify``."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence

import click
from click.core import ParameterSource
from rich.text import Text

from ortconv import verification
from ortconv.cli import comparisons, feeds, files, options, output
from ortconv.model_io.input_data import Input
from ortconv.options import Semantics, Target
from ortconv.runtime.library import Backend
from ortconv.verification import Analysis, Comparison, Layer, Verification

__all__ = ["command"]

_BACKENDS: Mapping[Backend, str] = {"native": "plugin", "python": "Python ops", "none": "no plugin"}


@click.command("verify", epilog="Example: ortconv verify network.xml --shape image=1x3x64x64 --layers")
@click.argument("source", type=options.SOURCE)
@click.argument("model", type=options.SOURCE, required=False, metavar="[MODEL.onnx]")
@options.semantics(
    None,
    "What the model follows. Default: what MODEL.onnx says of itself; without one runtime for OpenVINO (its runtime "
    "knows nothing else) and spec for oneDNN.",
)
@options.target("As for convert, without MODEL.onnx: auto (default), onnx or plugin.")
@options.tensors
@feeds.feed_options
@options.tolerance
@click.option(
    "--backend",
    "backends",
    type=click.Choice(list(_BACKENDS)),
    multiple=True,
    default=("native", "none"),
    help="What runs operators of org.ortconv; repeatable. native: the plugin. none: function bodies. python: Python "
    "operators. Default: native and none.",
)
@options.providers
@click.option(
    "--layers",
    is_flag=True,
    help="Also compare intermediate results, each computed from the source's own results, and name "
    "the first that differs.",
)
@options.file_to_write("--json", "json_file", metavar="FILE.json", help="Write all results as JSON.")
def command(
    source: pathlib.Path,
    model: pathlib.Path | None,
    semantics: Semantics | None,
    target: Target,
    tensors_file: pathlib.Path | None,
    input_texts: tuple[str, ...],
    shape_texts: tuple[str, ...],
    seed: int,
    tolerance: float | None,
    backends: tuple[Backend, ...],
    providers: tuple[str, ...],
    layers: bool,
    json_file: pathlib.Path | None,
) -> None:
    """Compare a model in ONNX Runtime with its source, on the same data.

    The expected results come from OpenVINO's CPU runtime (in float32) for an OpenVINO source, and from a float64
    reference for a oneDNN graph. Without MODEL.onnx, SOURCE is converted first. The relative error of an element is its
    error divided by the expected value or, if that is larger, by the root mean square of all expected values. NaN and
    infinities must be in the same places. States with dynamic dimensions, such as a KV cache, start with the source's
    initial values unless data or a shape is given.

    Cancellation, sorting and quantization magnify rounding errors. If outputs differ, the model is compared layer by
    layer, each on the inputs that it has in the source (without int8 kernels for a quantized model). If a layer
    differs, the source's operations are evaluated repeatedly with all numbers perturbed within rounding error, and
    results within the range found are accepted. The exit code is 1 if a layer differs by more.
    """
    if model and click.get_current_context().get_parameter_source("target") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--target chooses how SOURCE is converted, and MODEL.onnx is converted already.")
    options.writable("--json", json_file)
    names = options.provider_names(providers)
    tensors = files.read_npz(tensors_file) if tensors_file else None
    declared = verification.declared_inputs(source, tensors)
    options.keep_apart(
        [json_file],
        [source, options.weights_of(source), model, tensors_file, *feeds.files_given(input_texts, declared)],
    )
    given = feeds.parse_inputs(input_texts, declared)
    shapes = feeds.parse_shapes(shape_texts, declared)
    with output.bar(f"Verifying {source}") as bar, feeds.integers_in_mind(declared, given):
        found = verification.verify(
            source,
            model,
            semantics=semantics,
            target=target,
            tensors=tensors,
            data=given,
            shapes=shapes,
            seed=seed,
            tolerance=tolerance,
            backends=tuple(dict.fromkeys(backends)),
            providers=names,
            layers=layers,
            progress=bar,
        )
    _print(found, layers, declared)
    if json_file:
        files.write_json(json_file, _document(found))
    if not found.agrees:
        raise click.exceptions.Exit(1)


_NOTHING = "the outputs say nothing, being empty or the same for other data"


def _print(found: Verification, layers: bool, declared: Sequence[Input]) -> None:
    output.line(("source    ", "bold"), output.plain(found.source))
    output.line(("model     ", "bold"), output.plain(found.model or "converted now"), f", {found.semantics} semantics")
    output.line(("expected  ", "bold"), found.oracle)
    if found.feeds:
        output.line()
        feeds.tell_chosen(found.chosen, declared, "larger ones, by --shape, test more")
        feeds.print_data(found.feeds, found.given, found.seed, found.first)
    if layers:
        output.line()
        output.table(
            ("node", "result", *comparisons.NUMBERS, "spread", ""),
            [_layer(layer) for layer in found.layers],
            numbers=(*comparisons.NUMBERS, "spread"),
        )
    output.line()
    _print_outputs(found.outputs, explained=found.agrees)
    if found.analysis and found.analysis.oracle != found.oracle:
        output.line()
        output.line(("expected  ", "bold"), found.analysis.oracle)
        output.line()
        _print_outputs(found.analysis.outputs, explained=found.agrees)
    for backend, reason in found.skipped.items():
        output.line((f"not run: {_BACKENDS[backend]} ({output.plain(reason)})", "dim"))
    if found.saturates:
        output.warning(
            "sums of products of 8-bit integers saturate on this CPU: in OpenVINO's int8 kernels, and in ONNX Runtime "
            "unless session.x64quantprecision is 1 among a session's config entries, as it was here"
        )
    output.line()
    _conclude(found)


def _print_outputs(outputs: Mapping[Backend, Sequence[Comparison]], *, explained: bool) -> None:
    output.table(
        ("output", "run by", *comparisons.NUMBERS, ""),
        [
            (output.plain(comparison.name), _BACKENDS[backend], *comparisons.cells(comparison, explained=explained))
            for backend, compared in outputs.items()
            for comparison in compared
        ],
        numbers=comparisons.NUMBERS,
    )


def _conclude(found: Verification) -> None:
    if found.agrees:
        _agree(found)
        return
    for backend, compared in found.outputs.items():
        for comparison in compared:
            if not comparison.agrees:
                output.line(
                    ("DIFFERS", "bold red"),
                    f": {output.plain(comparison.name)} ({_BACKENDS[backend]}): {_difference(comparison)}",
                )
    if found.vacuous:
        output.line(("DIFFERS", "bold red"), f": {_NOTHING}, and what they are computed from differs")
    first = found.first_difference
    if first:
        output.line(
            ("first difference", "bold"),
            f": {first.node.op_type} {output.plain(first.node.name)} (id {output.plain(first.node.id)}): "
            f"{_difference(first.comparison)}; {_spread(first.comparison)}",
        )
    elif found.analysis:
        for inside in found.analysis.layers.values():
            for comparison in inside.outputs:
                if not comparison.agrees:
                    output.line(
                        ("first difference", "bold"),
                        f": output {output.plain(comparison.name)}, computed from the source's intermediate results, "
                        f"which agree: {_difference(comparison)}; {_spread(comparison)}",
                    )
    if found.warnings:
        for text in found.warnings:
            output.warning(text)
        output.warning(
            "for these nodes the model follows the specification, and OpenVINO does not: differences are expected; "
            "to compare with OpenVINO, convert with --semantics runtime"
        )


def _spread(comparison: Comparison) -> str:
    if comparison.spread is None:
        return "the effect of rounding is not known"
    return f"rounding changes it by at most {comparison.spread:.2g}"


def _agree(found: Verification) -> None:
    analysis = found.analysis
    if analysis is None:
        output.line(("OK", "bold green"), ": every output agrees")
        return
    if not analysis.layers:
        output.line(
            ("OK", "bold green"),
            ": every output agrees with OpenVINO without int8 kernels, which round sums otherwise",
        )
        return
    count = min(len(layers.layers) for layers in analysis.layers.values())
    what = _NOTHING if found.vacuous else "the outputs differ by rounding alone"
    output.line(
        ("OK", "bold green"),
        f": {what}: each of {count} intermediate results agrees, computed from the source's own",
    )
    for backend in analysis.layers:
        for comparison in analysis.outputs[backend]:
            if not comparison.agrees and comparison.spread:  # quantization may hide it
                output.line(
                    f"{output.plain(comparison.name)} ({_BACKENDS[backend]}) {_distance('differs', comparison.max_rel)}"
                    f"; the source's own {_distance('moves', comparison.spread)} when its inputs are rounded otherwise"
                )
        for layer in analysis.layers[backend].layers:
            if layer.comparison.rounded:
                output.line(
                    f"{layer.node.op_type} {output.plain(layer.node.name)} ({_BACKENDS[backend]}): "
                    f"{layer.comparison.rounded} of {math.prod(layer.comparison.shape)} elements are beyond the "
                    f"tolerance, {layer.comparison.max_rel:.2g}, and within what rounding does there, "
                    f"{layer.comparison.spread:.2g}"
                )


def _distance(verb: str, error: float) -> str:
    return f"{verb} by {error:.2g}" if math.isfinite(error) else f"{verb} in shape, or to numbers that are not finite"


def _layer(layer: Layer) -> Sequence[output.Cell]:
    node = Text.assemble((output.plain(layer.node.op_type), "bold"), f" {output.plain(layer.node.name)}")
    *numbers, verdict = comparisons.cells(layer.comparison)
    spread = "" if layer.comparison.spread is None else f"{layer.comparison.spread:.2g}"
    return (node, output.plain(layer.comparison.name), *numbers, spread, verdict)


def _difference(comparison: Comparison) -> str:
    if comparison.problem:
        return comparison.problem
    text = f"{comparison.wrong} of {math.prod(comparison.shape)} elements"
    if comparison.worst:
        at, expected, actual = comparison.worst
        digits = 6 if f"{expected:.6g}" != f"{actual:.6g}" else 9
        text += f"; the worst at {list(at)}: expected {expected:.{digits}g}, found {actual:.{digits}g}"
    return text


def _document(found: Verification) -> object:
    return comparisons.finite(
        {
            "source": found.source,
            "model": found.model,
            "expected": found.oracle,
            "semantics": found.semantics,
            "agrees": found.agrees,
            "seed": found.seed,
            "inputs": [
                {
                    **feeds.fields(name, array),
                    "given": name in found.given,
                    "first": name in found.first,
                    "chosen": name in found.chosen,
                }
                for name, array in found.feeds.items()
            ],
            "outputs": _outputs(found.outputs),
            "skipped": dict(found.skipped),
            "layers": _layers(found.layers),
            "analysis": _analysis(found.analysis),
            "warnings": list(found.warnings),
            "vacuous": found.vacuous,
            "saturates": found.saturates,
        }
    )


def _outputs(outputs: Mapping[Backend, Sequence[Comparison]]) -> object:
    return [
        {"backend": backend, **comparisons.fields(comparison)}
        for backend, compared in outputs.items()
        for comparison in compared
    ]


def _layers(layers: Sequence[Layer]) -> object:
    return [{"node": dataclasses.asdict(layer.node), **comparisons.fields(layer.comparison)} for layer in layers]


def _analysis(found: Analysis | None) -> object:
    if found is None:
        return None
    inside = [
        {"backend": backend, "agree": each.agree, "layers": _layers(each.layers)}
        for backend, each in found.layers.items()
    ]
    return {"expected": found.oracle, "agrees": found.agrees, "outputs": _outputs(found.outputs), "inside": inside}
