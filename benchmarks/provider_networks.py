"""Networks for `benchmarks.provider`, as ONNX files with random weights.

They are exported by torch: networks of torchvision, torchaudio, transformers, diffusers and demucs, and some of known
architectures that are defined here. Those of `benchmarks.audio` and PP-OCR are ONNX models already. Some are quantized
by ONNX Runtime's own tool, with QuantizeLinear and DequantizeLinear around each layer.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import itertools
import pathlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.audio import networks as audio
from benchmarks.networks import NETWORKS, network
from benchmarks.quantized_sources import OCR, TRANSPOSED, Missing, ocr_file, transposed

__all__ = ["GROUPS", "QUANTIZED", "Write"]

Write = Callable[[pathlib.Path], None]
"""Writes a network into a file; raises Missing where a package is not installed."""
Module = tuple[Any, tuple[Any, ...]]
"""A module of torch, and data for it."""

QUANTIZED = "Quantized"
"""The group of those whose sums of integers are rounded, where ONNX Runtime may round sums of floats."""

_OPSET = 17
_CALIBRATIONS = 4


def _exported(packages: Sequence[str], make: Callable[[], Module]) -> Write:
    """Returns what exports a network that needs packages beside torch."""

    def write(path: pathlib.Path) -> None:
        missing = [each for each in ("torch", *packages) if importlib.util.find_spec(each) is None]
        if missing:
            raise Missing(f"{missing[0]} is not installed")
        import torch

        torch.manual_seed(0)
        torch.set_grad_enabled(False)
        module, data = make()
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(module.eval(), data, str(path), dynamo=False, opset_version=_OPSET)

    return write


def _of_torchvision(name: str) -> Module:
    module, image = network(name)
    return module, (image,)


def _of_quantized_sources(name: str) -> Module:
    module, data = transposed(name)
    return module, (data,)


def _data(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    import torch

    return tuple(torch.randn(shape) for shape in shapes)


def _returning(module: Any, pick: Callable[[Any], Any]) -> Any:
    """Returns a module whose result is some of another's."""
    from torch import nn

    class Returning(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *data: Any) -> Any:
            return pick(self.module(*data))

    return Returning()


def _pose() -> Module:
    """Simple Baselines: a ResNet, and three transposed convolutions to heat maps."""
    import torchvision
    from torch import nn

    layers: list[Any] = list(torchvision.models.resnet18(weights=None).children())[:-2]
    for inputs in (512, 256, 256):
        layers += [nn.ConvTranspose2d(inputs, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(256, 17, 1)), _data((1, 3, 256, 192))


def _super_resolution() -> Module:
    """FSRCNN."""
    from torch import nn

    sizes = [(1, 56, 5), (56, 12, 1), *[(12, 12, 3)] * 4, (12, 56, 1)]
    layers = [(nn.Conv2d(a, b, kernel, padding=kernel // 2), nn.PReLU(b)) for a, b, kernel in sizes]
    last = nn.ConvTranspose2d(56, 1, 9, 4, 4, 3)
    return nn.Sequential(*itertools.chain.from_iterable(layers), last), _data((1, 1, 96, 96))


def _volumes() -> Module:
    """A 3-D U-Net."""
    import torch
    from torch import nn

    def twice(inputs: int, outputs: int) -> Any:
        layers = [
            (nn.Conv3d(each, outputs, 3, padding=1), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01))
            for each in (inputs, outputs)
        ]
        return nn.Sequential(*itertools.chain.from_iterable(layers))

    class Volumes(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            pairs = list(itertools.pairwise([1, 16, 32, 64]))
            self.down = nn.ModuleList(twice(a, b) for a, b in pairs)
            self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in pairs[:0:-1])
            self.merge = nn.ModuleList(twice(2 * a, a) for a, _ in pairs[:0:-1])
            self.pool = nn.MaxPool3d(2)
            self.last = nn.Conv3d(16, 3, 1)

        def forward(self, x: Any) -> Any:
            kept: list[Any] = []
            for stage in self.down:
                x = stage(self.pool(x) if kept else x)
                kept.append(x)
            for up, merge, skip in zip(self.up, self.merge, kept[-2::-1], strict=True):
                x = merge(torch.cat([up(x), skip], 1))
            return self.last(x)

    return Volumes(), _data((1, 1, 32, 32, 32))


def _video() -> Module:
    import torchvision

    return torchvision.models.video.r3d_18(weights=None), _data((1, 3, 8, 112, 112))


def _depth() -> Module:
    from transformers import DPTConfig, DPTForDepthEstimation

    sizes = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536, "image_size": 224}
    config = DPTConfig(**sizes, neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64)
    return _returning(DPTForDepthEstimation(config), lambda found: found.predicted_depth), _data((1, 3, 224, 224))


def _vitpose() -> Module:
    from transformers import VitPoseBackboneConfig, VitPoseConfig, VitPoseForPoseEstimation

    backbone = VitPoseBackboneConfig(hidden_size=384, num_attention_heads=6, out_indices=[12])
    module = VitPoseForPoseEstimation(VitPoseConfig(backbone_config=backbone, use_simple_decoder=False))
    return _returning(module, lambda found: found.heatmaps), _data((1, 3, 256, 192))


def _masks() -> Module:
    """The decoder of masks of SAM."""
    from torch import nn
    from transformers import SamConfig, SamModel

    decoder = SamModel(SamConfig()).mask_decoder

    class Masks(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.decoder = decoder

        def forward(self, *data: Any) -> Any:
            names = ("image_embeddings", "image_positional_embeddings", "sparse_prompt_embeddings")
            named = dict(zip((*names, "dense_prompt_embeddings"), data, strict=True))
            return self.decoder(**named, multimask_output=True)[:2]

    image = (1, 256, 64, 64)
    return Masks(), _data(image, image, (1, 1, 2, 256), image)


def _hifigan() -> Module:
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    return SpeechT5HifiGan(SpeechT5HifiGanConfig()), _data((1, 80, 80))


def _decoder(model: str, *shape: int) -> Module:
    """The decoder of a model of transformers, of its default sizes."""
    import transformers

    made = getattr(transformers, f"{model}Model")(getattr(transformers, f"{model}Config")())
    return made.decoder, _data(shape)


def _oobleck() -> Module:
    from diffusers import AutoencoderOobleck

    return AutoencoderOobleck().decoder, _data((1, 64, 16))


def _tasnet() -> Module:
    from torchaudio.models import conv_tasnet_base

    return conv_tasnet_base(), _data((1, 1, 16000))


def _htdemucs(stems: int) -> Module:
    """HTDemucs as demucs-onnx exports it: the transforms are Conv and ConvTranspose."""
    from demucs.htdemucs import HTDemucs
    from demucs_onnx.export import patch_htdemucs_for_onnx

    module = HTDemucs(sources=[f"stem{i}" for i in range(stems)], bottom_channels=512, segment=7.8)
    return patch_htdemucs_for_onnx(module.eval()), _data((1, 2, 343980))


def _of_onnx(problem: audio.Problem) -> Write:
    def write(path: pathlib.Path) -> None:
        import onnx

        onnx.save(problem.model(), path)

    return write


def _of_ocr(name: str) -> Write:
    def write(path: pathlib.Path) -> None:
        import onnx

        model = onnx.load(ocr_file(name))
        for size, dim in zip(OCR[name][1], model.graph.input[0].type.tensor_type.shape.dim, strict=True):
            dim.dim_value = size
        onnx.save(model, path)

    return write


def _quantized(write_floats: Write) -> Write:
    """Returns what writes a network with its layers quantized, weights by channel."""

    def write(path: pathlib.Path) -> None:
        from onnxruntime.quantization import CalibrationDataReader, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        floats = path.with_suffix(".floats.onnx")
        write_floats(floats)
        quant_pre_process(str(floats), str(floats))
        name, feeds = _feeds(floats)

        class Calibration(CalibrationDataReader):  # type: ignore[misc]
            def get_next(self) -> dict[str, Any] | None:
                return next(({name: each} for each in feeds), None)

        quantize_static(str(floats), str(path), Calibration(), per_channel=True)
        floats.unlink()

    return write


def _feeds(path: pathlib.Path) -> tuple[str, Iterator[np.ndarray[Any, Any]]]:
    """Returns the name of a model's input, and data for it."""
    import onnx

    (value,) = onnx.load(path).graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    rng = np.random.default_rng(0)
    return value.name, (rng.standard_normal(shape, np.float32) for _ in range(_CALIBRATIONS))


_T, _V = ("transformers",), ("torchvision",)
_FEW: dict[str, Write] = {
    "Simple Baselines pose": _exported(_V, _pose),
    "FSRCNN": _exported((), _super_resolution),
    **{name: _exported((), functools.partial(_of_quantized_sources, name)) for name in TRANSPOSED},
}
_VISION = {name: _exported(_V, functools.partial(_of_torchvision, name)) for name in NETWORKS}

GROUPS: dict[str, dict[str, Write]] = {
    "Transposed convolutions": {
        **_FEW,
        "3-D U-Net": _exported((), _volumes),
        "ViTPose": _exported(_T, _vitpose),
        "DPT": _exported(_T, _depth),
        "SAM's mask decoder": _exported(_T, _masks),
        "HiFi-GAN": _exported(_T, _hifigan),
        "VITS decoder": _exported(_T, functools.partial(_decoder, "Vits", 1, 192, 60)),
        "EnCodec decoder": _exported(_T, functools.partial(_decoder, "Encodec", 1, 128, 150)),
        "DAC decoder": _exported(_T, functools.partial(_decoder, "Dac", 1, 1024, 40)),
        "Oobleck decoder": _exported(("diffusers",), _oobleck),
        "Conv-TasNet": _exported(("torchaudio",), _tasnet),
    },
    "Fourier transforms": {
        "HTDemucs, 4 stems": _exported(("demucs", "demucs_onnx"), functools.partial(_htdemucs, 4)),
        "HTDemucs, 6 stems": _exported(("demucs", "demucs_onnx"), functools.partial(_htdemucs, 6)),
        **{type(each).__name__: _of_onnx(each) for each in audio.networks()},
    },
    QUANTIZED: {f"{name}, int8": _quantized(_FEW[name]) for name in _FEW}
    | {f"{name}, int8": _quantized(_VISION[name]) for name in ("resnet18", "mobilenet_v3_large")},
    "Others": {**_VISION, "r3d_18": _exported(_V, _video), **{name: _of_ocr(name) for name in OCR}},
}
"""Heading of a table -> name -> what writes the network."""
