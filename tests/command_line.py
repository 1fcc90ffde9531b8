"""Running the command line in this process, and sources for it."""

from __future__ import annotations

import pathlib

import click.testing

from ortconv import onednn
from ortconv.cli import cli


def run_cli(*arguments: object) -> click.testing.Result:
    """Runs a command; neither stream may show a traceback or an escape sequence."""
    result = click.testing.CliRunner().invoke(cli, [str(each) for each in arguments], prog_name="ortconv")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    for stream in (result.stdout, result.stderr):
        assert "Traceback" not in stream
        assert "\x1b" not in stream
    return result


def upsampling(auto_pad: str = "SAME_UPPER", name: str = "up") -> onednn.Graph:
    """A backward-data convolution, for which page and library differ, and two activations."""
    source = onednn.Graph(name)
    x = source.tensor("x", "f32", [1, 4, 4, 3])
    w = source.tensor("w", "f32", [3, 3, 2, 3], constant=True)
    up = source.op(
        "ConvolutionBackwardData",
        [x, w],
        strides=[2, 2],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        dilations=[1, 1],
        auto_pad=auto_pad,
        dst_shape=[1, 8, 8, 2],
    )
    source.op("Sigmoid", [source.op("ReLU", [up])])
    return source


def activation(dtype: str = "f32", kind: str = "ReLU", name: str = "act") -> onednn.Graph:
    """One op, with an open dim."""
    source = onednn.Graph(name)
    source.op(kind, [source.tensor("x", dtype, [1, None, 3])])
    return source


def refused() -> onednn.Graph:
    """Two ops that are not converted, and one that is."""
    source = onednn.Graph("refused")
    x = source.tensor("x", "f32", [2, 3])
    source.op("ReLU", [source.op("Wildcard", [source.op("Wildcard", [x], dtype="f32")], dtype="f32")])
    return source


def write(source: onednn.Graph, path: pathlib.Path) -> pathlib.Path:
    """Writes a graph and returns the file."""
    source.save(path)
    return path
