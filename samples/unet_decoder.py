"""A U-Net decoder whose output sizes are known only at run time.

    python samples/unet_decoder.py

Each stage of ``sources/unet_decoder.xml`` grows to the size of its skip connection, odd sizes included; ONNX's own
ConvTranspose takes no such tensor. The conversion keeps it as an input of ``org.ortconv.TransposedConvolutionToShape``.
"""

from __future__ import annotations

import pathlib

import numpy as np

import ortconv

SOURCE = pathlib.Path(__file__).parent / "sources" / "unet_decoder.xml"


def features(height: int, width: int) -> dict[str, np.ndarray]:
    """Returns feature maps of an encoder for an image of that size: each half of the one before, rounded up."""
    rng = np.random.default_rng(0)
    shapes = {"skip_1": (8, height, width), "skip_2": (16, -(-height // 2), -(-width // 2))}
    shapes["bottom"] = (32, -(-height // 4), -(-width // 4))
    return {name: rng.standard_normal((1, *shape)).astype(np.float32) for name, shape in shapes.items()}


def main() -> None:
    session = ortconv.InferenceSession(ortconv.convert(SOURCE))
    for height, width in [(32, 48), (33, 47), (61, 35)]:
        (mask,) = session.run(None, features(height, width))
        print(f"image {height} x {width} -> mask {mask.shape}, foreground {100 * (mask[:, 1] > 0.5).mean():.1f}%")


if __name__ == "__main__":
    main()
