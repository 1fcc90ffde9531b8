"""The command line: arguments, printing and exit codes. 0 done, 1 refused or failed, 2 wrong usage."""

from __future__ import annotations

import difflib
import importlib
import io
import os
import signal
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

from ortconv.cli import output
from ortconv.cli.deferred import defer

__all__ = ["cli", "main"]

_COMMANDS = {
    "convert": "Convert sources to ONNX files.",
    "check": "Check ONNX files, operators of org.ortconv included.",
    "run": "Run an ONNX file in ONNX Runtime.",
    "explain": "Show what becomes of each node of a source, and why.",
    "verify": "Compare a converted model with its source's own runtime.",
    "report": "Write a page on a conversion: networks, errors, times.",
    "optimize": "Replace ConvTranspose and Fourier layers of an ONNX file.",
    "bench": "Compare the speed of an ONNX file with and without our plugin.",
    "bundle": "Write a model repository for an inference server.",
    "ops": "List the operations that are converted.",
}
"""Command -> its line in the overview; the module of that name is imported when the command is used."""


_QUIET = click.Option(
    ["-q", "--quiet"],
    is_flag=True,
    expose_value=False,
    callback=output.quieten,
    help="Print warnings and errors alone; results are in the files that are written, and in the exit code.",
)
"""An option of every command, and of the program."""


class _Commands(click.Group):
    """Loads commands late, and turns every exception into a line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"ortconv.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        if _QUIET not in command.params:
            command.params.append(_QUIET)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else f" Commands: {', '.join(_COMMANDS)}."
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            output.interrupted()
            ctx.exit(128 + signal.SIGINT)
        except Exception as error:
            ctx.exit(output.failure(error))


@click.group(
    cls=_Commands,
    params=[_QUIET],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: ortconv convert network.xml graph.json --output-dir onnx",
)
@click.version_option(package_name="ortconv", message="%(prog)s %(version)s")
def cli() -> None:
    """Convert OpenVINO IR and oneDNN Graph JSON to ONNX, run the result in ONNX Runtime, and prove that it is right.

    Results go to stdout, warnings and errors to stderr. Exit codes: 0 done, 1 refused or failed, 2 wrong usage,
    128 plus the signal number if a signal ends the program.
    """


def main() -> None:
    """Runs the command line of this process."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as with >&-
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # Names may hold what the terminal cannot show.
    # onnx_ir imports SymPy, which takes longer than all else, for arithmetic with symbolic dimensions.
    defer("sympy", "onnx_ir._symbolic_shapes")
    code: Any = 0
    try:
        cli(prog_name="ortconv")
    except SystemExit as done:
        code = done.code
    except OSError as error:  # of what click prints before a command begins, as --help
        code = output.failure(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or output.failure(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end.
    sys.exit(code)
