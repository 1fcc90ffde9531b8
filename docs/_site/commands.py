"""Hook of MkDocs: the page on the command line lists all commands, as their ``--help`` describes them."""

from __future__ import annotations

import inspect
from typing import Any

import click

MARK = "<!-- The site shows all commands and their options here. -->"
"""What the list of commands takes the place of."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts the commands into a page that has the mark."""
    return markdown.replace(MARK, commands()) if MARK in markdown else markdown


def commands() -> str:
    """Returns a section for each command of ``ortconv``."""
    from ortconv.cli import cli

    program = click.Context(cli, info_name="ortconv", **cli.context_settings)
    found = [(name, cli.get_command(program, name)) for name in cli.list_commands(program)]
    shared = {option for each in cli.params for option in each.opts}
    return "\n".join(
        _section(click.Context(each, info_name=name, parent=program), shared) for name, each in found if each
    )


def _section(context: click.Context, shared: set[str]) -> str:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    own = [each for each in command.params if isinstance(each, click.Option) and shared.isdisjoint(each.opts)]
    records = [record for each in own if (record := each.get_help_record(context))]
    return "\n".join(
        [
            f"## {context.command_path}\n",
            f"{inspect.cleandoc(command.help or '')}\n",
            f"```text\n{usage}\n```\n",
            f'```sh title="Example"\n{(command.epilog or "").removeprefix("Example: ")}\n```\n',
            *(f"`{names}`\n:   {' '.join(text.split())}\n" for names, text in records),
        ]
    )
