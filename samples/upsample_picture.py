"""Enlarge a picture: a grouped bilinear ConvolutionBackpropData from OpenVINO IR, in ONNX Runtime.

    python samples/upsample_picture.py [PNG]

Converts ``sources/upsample_picture.xml``, runs it with and without the plugin, and draws the picture before and after.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import picture

import ortconv

SOURCE = pathlib.Path(__file__).parent / "sources" / "upsample_picture.xml"


def main(path: pathlib.Path) -> None:
    model = ortconv.convert(SOURCE, target="plugin")
    before = picture.landscape()
    (after,) = ortconv.InferenceSession(model).run(None, {"picture": before})
    (without_plugin,) = ortconv.InferenceSession(model, backend="none").run(None, {"picture": before})
    print(f"{before.shape} -> {after.shape}; without the plugin off by {np.abs(after - without_plugin).max():.1e}")
    picture.side_by_side(before, after, path)
    print(f"drawn: {path}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "demo_output/upsample_picture.png"))
