"""What is measured beside the layers of the CPU benchmark: the same networks with the work that a GPU is given."""

from __future__ import annotations

from benchmarks.shapes import SHAPES, Shape

__all__ = ["ALL", "families"]

_LARGE: tuple[Shape, ...] = (
    Shape("DCGAN k4s2 512>256 8x8 b128", 128, 512, 256, (8, 8), 4, 2, 1),
    Shape("DCGAN k4s2 64>3 32x32 b256", 256, 64, 3, (32, 32), 4, 2, 1),
    Shape("U-Net k2s2 512>256 64x64 b8", 8, 512, 256, (64, 64), 2, 2),
    Shape("U-Net k2s2 128>64 256x256 b8", 8, 128, 64, (256, 256), 2, 2),
    Shape("CycleGAN k3s2 op1 128>64 128x128 b16", 16, 128, 64, (128, 128), 3, 2, 1, 1),
    Shape("StyleGAN2 k3s2 512>512 64x64 b8", 8, 512, 512, (64, 64), 3, 2),
    Shape("SimpleBaseline k4s2 2048>256 8x6 b64", 64, 2048, 256, (8, 6), 4, 2, 1),
    Shape("CenterNet DLA depthwise k4s2 64 128x128 b16", 16, 64, 64, (128, 128), 4, 2, 1, group=64),
    Shape("DBNet head k2s2 64>1 320x320 b8", 8, 64, 1, (320, 320), 2, 2),
    Shape("SAM decoder k2s2 256>64 64x64 b64", 64, 256, 64, (64, 64), 2, 2),
    Shape("DPT k4s4 256>256 24x24 b16", 16, 256, 256, (24, 24), 4, 4),
    Shape("LapSRN k4s2 64>64 256x256 b4", 4, 64, 64, (256, 256), 4, 2, 1),
    Shape("HiFi-GAN 1-D k16s8 256>128 3200 b8", 8, 256, 128, (3200,), 16, 8, 4),
    Shape("3-D U-Net k3s2 64>32 32^3 b4", 4, 64, 32, (32, 32, 32), 3, 2, 1, 1),
    Shape("nnU-Net 3-D k2s2 320>256 16^3 b2", 2, 320, 256, (16, 16, 16), 2, 2),
)

ALL: tuple[Shape, ...] = SHAPES + _LARGE
"""The layers of the CPU benchmark and larger ones."""

_FEW = 4
"""Channels up to which a layer counts as one of small channels."""


def families(shape: Shape) -> tuple[str, ...]:
    """Returns the kinds of layers, among those that have ways of their own, that a shape is of."""
    kinds = {
        "depthwise": shape.group == shape.inputs == shape.outputs,
        "small channels": shape.group == 1 and min(shape.inputs, shape.outputs) <= _FEW,
        "k2s2": set(shape.kernels) == set(shape.strides) == {2},
    }
    return tuple(kind for kind, holds in kinds.items() if holds)
