"""Networks for `benchmarks.quantized` beside those of torchvision: PP-OCR, and three with transposed convolutions.

PP-OCR's detector and recognizer are the ONNX files of the package rapidocr-onnxruntime. The others have known
architectures and random weights: the neck and head of a YOLO that upsamples by transposed convolutions, a U-Net, and
the decoder of a GAN.
"""

from __future__ import annotations

import importlib.util
import itertools
import pathlib
from typing import Any

__all__ = ["OCR", "TRANSPOSED", "Missing", "ocr_file", "transposed"]

OCR = {
    "PP-OCRv4 detector": ("ch_PP-OCRv4_det_infer.onnx", (1, 3, 320, 320)),
    "PP-OCRv4 recognizer": ("ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
}
"""Files of rapidocr-onnxruntime, and the shapes of their images."""

TRANSPOSED = {"YOLO head": (1, 256, 20, 20), "U-Net": (1, 3, 128, 128), "GAN decoder": (1, 128, 4, 4)}
"""Shapes of the data."""


class Missing(Exception):  # noqa: N818 - an answer, not an error
    """A package is not installed; the message names it."""


def ocr_file(name: str) -> pathlib.Path:
    """Returns the path of a file of `OCR`.

    Raises:
        Missing: rapidocr-onnxruntime is not installed.
    """
    found = importlib.util.find_spec("rapidocr_onnxruntime")
    if found is None or found.origin is None:
        raise Missing("rapidocr-onnxruntime is not installed")
    return pathlib.Path(found.origin).parent / "models" / OCR[name][0]


def transposed(name: str) -> tuple[Any, Any]:
    """Returns a network of `TRANSPOSED`, and data for it.

    Raises:
        Missing: torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise Missing("torch is not installed")
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    made = {"YOLO head": _yolo_head, "U-Net": _u_net, "GAN decoder": _gan_decoder}[name]()
    return made.eval(), torch.randn(TRANSPOSED[name])


def _conv(inputs: int, outputs: int, kernel: int = 3) -> Any:
    from torch import nn

    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.ReLU())


def _up(inputs: int, outputs: int, kernel: int = 2) -> Any:
    from torch import nn

    return nn.Sequential(nn.ConvTranspose2d(inputs, outputs, kernel, 2, (kernel - 2) // 2), nn.ReLU())


def _yolo_head() -> Any:
    from torch import nn

    stages = [layer for _ in range(2) for layer in (_up(256, 256), _conv(256, 128, 1), _conv(128, 256))]
    return nn.Sequential(_conv(256, 256), *stages, nn.Conv2d(256, 85, 1), nn.Sigmoid())


def _gan_decoder() -> Any:
    from torch import nn

    widths = [256, 128, 64, 32]
    stages = [_up(*pair, kernel=4) for pair in itertools.pairwise(widths)]
    return nn.Sequential(_up(128, 256, 4), *stages, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())


def _u_net() -> Any:
    import torch
    from torch import nn

    class UNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            widths = [32, 64, 128, 256]
            pairs = list(zip([3, *widths], widths, strict=False))
            self.down = nn.ModuleList(nn.Sequential(_conv(a, b), _conv(b, b)) for a, b in pairs)
            self.up = nn.ModuleList(_up(b, a) for a, b in pairs[:0:-1])
            self.merge = nn.ModuleList(nn.Sequential(_conv(2 * a, a), _conv(a, a)) for a, _ in pairs[:0:-1])
            self.pool = nn.MaxPool2d(2)
            self.last = nn.Conv2d(widths[0], 4, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for index, stage in enumerate(self.down):
                x = stage(x if index == 0 else self.pool(x))
                kept.append(x)
            for up, merge, skip in zip(self.up, self.merge, kept[-2::-1], strict=True):
                x = merge(torch.cat([up(x), skip], 1))
            return self.last(x)

    return UNet()
