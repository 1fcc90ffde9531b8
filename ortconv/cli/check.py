"""``ortconv check``."""

from __future__ import annotations

import pathlib
from collections import Counter

import click
import onnx

from ortconv.cli import options, output
from ortconv.model_io import checker, protos
from ortconv.model_io.function_checks import needs_plugin
from ortconv.opset.domain import DOMAIN

__all__ = ["command"]

_STANDARD = ("", "ai.onnx", "ai.onnx.ml")


@click.command("check", epilog="Example: ortconv check network.onnx")
@click.argument("models", nargs=-1, required=True, type=options.SOURCE, metavar="MODEL.onnx...")
def command(models: tuple[pathlib.Path, ...]) -> None:
    """Check ONNX files: onnx.checker with full check, which knows the operators of org.ortconv.

    Each valid file gives one line on stdout: its versions, its operators of org.ortconv, and whether it runs without
    the plugin. Each invalid one gives an error line, and the exit code is 1.
    """
    code = 0
    for path in models:
        try:
            options.refuse_source(path)
            with output.progress(f"Checking {path}"):
                model = checker.check_file(path)
        except Exception as error:
            code = output.failure(error)
        else:
            output.line((output.plain(path), "bold"), ": ", ("ok", "green"), f", {_describe(model)}")
    raise click.exceptions.Exit(code)


def _describe(model: onnx.ModelProto) -> str:
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    nodes = Counter((node.domain, node.op_type) for node in protos.nodes(model.graph.node))
    bodies = {(function.domain, function.name) for function in model.functions}
    parts = [f"opset {opsets.get('ai.onnx', '?')}", f"IR {model.ir_version}", output.count(nodes.total(), "node")]
    ours = {op_type: count for (domain, op_type), count in nodes.items() if domain == DOMAIN}
    if ours:
        parts.append(f"{DOMAIN}: " + ", ".join(f"{count} {op_type}" for op_type, count in sorted(ours.items())))
        parts.append("needs the plugin" if needs_plugin(model) else "runs without the plugin")
    else:
        parts.append(f"no operators of {DOMAIN}")
    others = sorted({domain for domain, op_type in nodes if (domain, op_type) not in bodies} - {DOMAIN, *_STANDARD})
    if others:
        parts.append(f"needs the operators of {', '.join(map(output.plain, others))}")
    return ", ".join(parts)
