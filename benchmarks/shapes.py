"""What is measured: transposed convolutions of real networks, with their operation and byte counts."""

from __future__ import annotations

import dataclasses
import math

__all__ = ["DTYPES", "SHAPES", "Shape"]

DTYPES = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8}
"""Element types by name -> bytes."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """A transposed convolution. Of what every axis has, one number stands for the same on all of them.

    Attributes:
        name: Network and layer.
        batch: N.
        inputs: C, channels that come in.
        outputs: M, channels that go out.
        size: Spatial sizes of the input.
        kernel: Kernel size.
        stride: Stride.
        pad: Padding at each end.
        extra: Output padding.
        group: Number of groups.
        dilation: Dilation.
    """

    name: str
    batch: int
    inputs: int
    outputs: int
    size: tuple[int, ...]
    kernel: int | tuple[int, ...]
    stride: int | tuple[int, ...]
    pad: int | tuple[int, ...] = 0
    extra: int | tuple[int, ...] = 0
    group: int = 1
    dilation: int | tuple[int, ...] = 1

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return len(self.size)

    @property
    def kernels(self) -> tuple[int, ...]:
        """Kernel size by axis."""
        return self._each(self.kernel)

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride by axis."""
        return self._each(self.stride)

    @property
    def pads(self) -> tuple[int, ...]:
        """Padding at each end, by axis."""
        return self._each(self.pad)

    @property
    def extras(self) -> tuple[int, ...]:
        """Output padding by axis."""
        return self._each(self.extra)

    @property
    def dilations(self) -> tuple[int, ...]:
        """Dilation by axis."""
        return self._each(self.dilation)

    @property
    def x_shape(self) -> tuple[int, ...]:
        """[N, C, spatial...]."""
        return (self.batch, self.inputs, *self.size)

    @property
    def w_shape(self) -> tuple[int, ...]:
        """[C, M/group, kernel...]."""
        return (self.inputs, self.outputs // self.group, *self.kernels)

    @property
    def y_shape(self) -> tuple[int, ...]:
        """[N, M, spatial...]."""
        return (self.batch, self.outputs, *map(self._output_size, range(self.axes)))

    @property
    def terms(self) -> int:
        """An upper bound of the number of products in one element of the output."""
        met = (
            -(-kernel // (stride // math.gcd(stride, dilation)))
            for kernel, stride, dilation in zip(self.kernels, self.strides, self.dilations, strict=True)
        )
        return self.inputs // self.group * math.prod(met)

    @property
    def flops(self) -> int:
        """Useful operations: a multiplication and an addition per product that lands inside the output."""
        pairs = math.prod(map(self._pairs, range(self.axes)))
        return 2 * self.batch * self.inputs * (self.outputs // self.group) * pairs

    def bytes_moved(self, dtype: str) -> int:
        """Returns the least traffic: input, weights and output, once each."""
        return DTYPES[dtype] * sum(map(math.prod, (self.x_shape, self.w_shape, self.y_shape)))

    def _each(self, value: int | tuple[int, ...]) -> tuple[int, ...]:
        return (value,) * self.axes if isinstance(value, int) else value

    def _output_size(self, axis: int) -> int:
        extent = (self.kernels[axis] - 1) * self.dilations[axis] + 1
        return self.strides[axis] * (self.size[axis] - 1) + extent - 2 * self.pads[axis] + self.extras[axis]

    def _pairs(self, axis: int) -> int:
        """Returns how many pairs of an input position and a tap of one axis land inside the output."""
        end, dilation = self._output_size(axis), self.dilations[axis]
        pairs = 0
        for at in range(self.size[axis]):
            first = at * self.strides[axis] - self.pads[axis]  # where tap 0 lands
            inside = min(self.kernels[axis], -((first - end) // dilation)) - max(0, -(first // dilation))
            pairs += max(0, inside)
        return pairs


SHAPES: tuple[Shape, ...] = (
    # The field: what the kernels were tuned on.
    Shape("DCGAN k4s2 512>256 8x8", 1, 512, 256, (8, 8), 4, 2, 1),
    Shape("DCGAN k4s2 128>64 16x16 b8", 8, 128, 64, (16, 16), 4, 2, 1),
    Shape("DCGAN k4s2 64>3 32x32 b8", 8, 64, 3, (32, 32), 4, 2, 1),
    Shape("U-Net k2s2 256>128 32x32", 1, 256, 128, (32, 32), 2, 2),
    Shape("U-Net k2s2 128>64 64x64", 1, 128, 64, (64, 64), 2, 2),
    Shape("pix2pix k3s2 op1 256>128 32x32", 1, 256, 128, (32, 32), 3, 2, 1, 1),
    Shape("FSRCNN k9s3 56>1 64x64", 1, 56, 1, (64, 64), 9, 3, 4),
    Shape("DBNet k2s2 64>64 160x160", 1, 64, 64, (160, 160), 2, 2),
    Shape("FCN-8s depthwise k16s8 21 34x34", 1, 21, 21, (34, 34), 16, 8, 4, group=21),
    Shape("HiFi-GAN 1-D k16s8 256>128 200", 1, 256, 128, (200,), 16, 8, 4),
    Shape("1-D k4s2 128>64 800", 1, 128, 64, (800,), 4, 2, 1),
    Shape("V-Net 3-D k2s2 64>32 16^3", 1, 64, 32, (16, 16, 16), 2, 2),
    Shape("3-D U-Net k3s2 64>32 16^3", 1, 64, 32, (16, 16, 16), 3, 2, 1, 1),
    Shape("backward data k3s1 128>128 56x56", 1, 128, 128, (56, 56), 3, 1, 1),
    Shape("k3s2 256>128 28x28", 1, 256, 128, (28, 28), 3, 2, 1),
    Shape("grouped g4 k4s2 128>128 28x28", 1, 128, 128, (28, 28), 4, 2, 1, group=4),
    Shape("dilated k3s1 d2 128>128 32x32", 1, 128, 128, (32, 32), 3, 1, 2, dilation=2),
    # Others, which they were not tuned on.
    Shape("DCGAN latent k4s1 100>512 1x1 b16", 16, 100, 512, (1, 1), 4, 1),
    Shape("CycleGAN k3s2 op1 128>64 128x128", 1, 128, 64, (128, 128), 3, 2, 1, 1),
    Shape("StyleGAN2 k3s2 512>512 16x16", 1, 512, 512, (16, 16), 3, 2),
    Shape("SimpleBaseline k4s2 2048>256 8x6", 1, 2048, 256, (8, 6), 4, 2, 1),
    Shape("SimpleBaseline k4s2 256>256 32x24", 1, 256, 256, (32, 24), 4, 2, 1),
    Shape("CenterNet DLA depthwise k4s2 64 64x64", 1, 64, 64, (64, 64), 4, 2, 1, group=64),
    Shape("ERFNet head k2s2 16>20 128x256", 1, 16, 20, (128, 256), 2, 2),
    Shape("DBNet head k2s2 64>1 320x320", 1, 64, 1, (320, 320), 2, 2),
    Shape("Mask R-CNN k2s2 256>256 14x14 b16", 16, 256, 256, (14, 14), 2, 2),
    Shape("YOLOv8-seg k2s2 128>128 80x80", 1, 128, 128, (80, 80), 2, 2),
    Shape("SAM decoder k2s2 256>64 64x64", 1, 256, 64, (64, 64), 2, 2),
    Shape("DPT k4s4 256>256 24x24", 1, 256, 256, (24, 24), 4, 4),
    Shape("PointPillars k4s4 256>128 62x54", 1, 256, 128, (62, 54), 4, 4),
    Shape("FlowNet k4s2 1024>512 6x8", 1, 1024, 512, (6, 8), 4, 2, 1),
    Shape("PWC-Net flow k4s2 2>2 112x128", 1, 2, 2, (112, 128), 4, 2, 1),
    Shape("LapSRN k4s2 64>64 64x64", 1, 64, 64, (64, 64), 4, 2, 1),
    Shape("FCN-8s k4s2 21>21 34x34", 1, 21, 21, (34, 34), 4, 2, 1),
    Shape("WaveGAN 1-D k25s4 256>128 256", 1, 256, 128, (256,), 25, 4, 11, 1),
    Shape("Demucs 1-D k8s4 384>192 336", 1, 384, 192, (336,), 8, 4, 2),
    Shape("Conv-TasNet 1-D k16s8 512>1 2000", 1, 512, 1, (2000,), 16, 8),
    Shape("EnCodec 1-D k10s5 256>128 600", 1, 256, 128, (600,), 10, 5),
    Shape("nnU-Net 3-D k2s2 320>256 8^3", 1, 320, 256, (8, 8, 8), 2, 2),
    # With axes that differ, and with kernels of hundreds of taps.
    Shape("nnU-Net 3-D k1x2x2 64>32 16x64x64", 1, 64, 32, (16, 64, 64), (1, 2, 2), (1, 2, 2)),
    Shape("HTDemucs k8x1 s4x1 384>192 8x336", 1, 384, 192, (8, 336), (8, 1), (4, 1), (2, 0)),
    Shape("HTDemucs k8x1 s4x1 96>48 128x336", 1, 96, 48, (128, 336), (8, 1), (4, 1), (2, 0)),
    Shape("DCCRN k5x2 s2x1 256>128 16x100", 1, 256, 128, (16, 100), (5, 2), (2, 1), (2, 0), (1, 0)),
    Shape(
        "DeepFilterNet depthwise k1x3 s1x2 64 100x16", 1, 64, 64, (100, 16), (1, 3), (1, 2), (0, 1), (0, 1), group=64
    ),
    Shape("EEG k4x1 s2x1 64>64 512x1", 1, 64, 64, (512, 1), (4, 1), (2, 1), (1, 0)),
    Shape("WaveGlow 1-D k1024s256 80>80 63", 1, 80, 80, (63,), 1024, 256),
    Shape("inverse STFT 1-D k1024s256 1026>1 250", 1, 1026, 1, (250,), 1024, 256),
    # Families of layers that random shapes (see hunt.py) showed to be slow.
    Shape("head k1 2048>5 40x40", 1, 2048, 5, (40, 40), 1, 1),
    Shape("head k3s1 1024>2 32x32", 1, 1024, 2, (32, 32), 3, 1, 1),
    Shape("head k4s2 64>3 64x64", 1, 64, 3, (64, 64), 4, 2, 1),
    Shape("one position k4s1 1024>512 1x1", 1, 1024, 512, (1, 1), 4, 1),
    Shape("few positions 1-D k1697s424 1871>2 3", 1, 1871, 2, (3,), 1697, 424),
    Shape("dilation and stride k3s2 d2 128>64 24x24", 1, 128, 64, (24, 24), 3, 2, 1, dilation=2),
    Shape("k1s2 256>64 28x28", 1, 256, 64, (28, 28), 1, 2),
    Shape("groups of few channels g32 k4s2 128>128 40x40", 1, 128, 128, (40, 40), 4, 2, 1, group=32),
    Shape("backward data k3s2 op1 2048>40 14x14", 1, 2048, 40, (14, 14), 3, 2, 1, 1),
    Shape("gaps 1-D k2s14 478>339 1748", 1, 478, 339, (1748,), 2, 14),
    Shape("gaps k4s8x7 g32 224>128 158x1 b5", 5, 224, 128, (158, 1), 4, (8, 7), group=32),
    Shape("some microseconds k3s2 16>4 4x4", 1, 16, 4, (4, 4), 3, 2, 1),
)
"""The first 17 are the field that the kernels are developed on; the others test that they are no special cases."""
