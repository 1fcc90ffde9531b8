"""A oneDNN graph defined in Python, in the spec's own words, and converted.

    python samples/onednn_backward_data.py

Channels last, XIO weights, and an odd padding: by the specification same_lower puts the smaller half at the beginning,
the library does the opposite. The conversion follows the specification and warns; ``semantics="runtime"`` follows the
library.
"""

from __future__ import annotations

import warnings

import numpy as np

import ortconv
from ortconv import onednn


def graph() -> onednn.Graph:
    g = onednn.Graph("up")
    x = g.tensor("diff_dst", "f32", [1, 1, 4, 1])
    w = g.tensor("weights", "f32", [1, 3, 1, 1])
    g.op("ConvolutionBackwardData", [x, w], name="up", strides=[1, 2], pads_begin=[0, 0], pads_end=[0, 0],
         dilations=[1, 1], auto_pad="same_lower", dst_shape=[1, 1, 8, 1])  # fmt: skip
    return g


def main() -> None:
    feeds = {
        "diff_dst": np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4, 1),
        "weights": np.array([1, 10, 100], np.float32).reshape(1, 3, 1, 1),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        models = {each: ortconv.convert(graph(), semantics=each) for each in ("spec", "runtime")}
    for semantics, model in models.items():
        (result,) = ortconv.InferenceSession(model).run(None, feeds)
        print(f"{semantics:8}", result.ravel().astype(int).tolist())
    print(f"warned: {caught[0].message}")


if __name__ == "__main__":
    main()
