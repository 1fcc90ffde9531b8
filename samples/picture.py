"""A small photograph-like picture, made from noise, and drawing two pictures side by side."""

from __future__ import annotations

import pathlib

import numpy as np
from PIL import Image, ImageDraw

HEIGHT, WIDTH = 80, 112
SEED = 7


def landscape() -> np.ndarray:
    """Returns a picture of hills at dusk, [1, 3, HEIGHT, WIDTH] float32 in 0..1."""
    rng = np.random.default_rng(SEED)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    sky = np.stack([0.95 - 0.55 * (1 - y / HEIGHT), 0.55 + 0.1 * (1 - y / HEIGHT), 0.45 + 0.4 * (1 - y / HEIGHT)])
    sun = np.exp(-((x - 0.7 * WIDTH) ** 2 + (y - 0.34 * HEIGHT) ** 2) / 60)
    picture = sky + sun * np.array([0.5, 0.35, 0.1])[:, None, None]
    picture += 0.06 * _noise(rng, HEIGHT, WIDTH) * np.clip(1 - y / (0.5 * HEIGHT), 0, 1)
    for depth, (height, color) in enumerate(
        [(0.5, (0.42, 0.38, 0.5)), (0.64, (0.24, 0.27, 0.33)), (0.8, (0.1, 0.16, 0.14))]
    ):
        ridge = HEIGHT * (height + 0.18 * _noise(rng, 1, WIDTH)[0])
        inside = 1 / (1 + np.exp(-(y - ridge) * 4))
        texture = 1 + (0.1 + 0.2 * depth) * _noise(rng, HEIGHT, WIDTH)
        picture = picture * (1 - inside) + inside * np.array(color)[:, None, None] * texture
    return np.clip(picture, 0, 1)[None].astype(np.float32)


def _noise(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Returns noise with detail at every scale, in about -1..1."""
    spectrum = np.fft.fft2(rng.standard_normal((height, width)))
    frequency = np.hypot(np.fft.fftfreq(height)[:, None] * height, np.fft.fftfreq(width)[None, :] * width)
    values = np.fft.ifft2(spectrum / np.maximum(frequency, 1) ** (1.6 if height > 1 else 1.3)).real
    return values / np.abs(values).max()


def side_by_side(before: np.ndarray, after: np.ndarray, path: pathlib.Path) -> None:
    """Draws the picture before, its pixels as blocks, beside the picture after."""
    factor = after.shape[2] // before.shape[2]
    blocks = before.repeat(factor, axis=2).repeat(factor, axis=3)
    gap = np.ones((1, 3, after.shape[2], 12), np.float32)
    joined = np.concatenate([blocks, gap, after], axis=3)[0].transpose(1, 2, 0)
    image = Image.fromarray((joined * 255 + 0.5).astype(np.uint8))
    canvas = Image.new("RGB", (image.width + 24, image.height + 40), "white")
    canvas.paste(image, (12, 28))
    draw = ImageDraw.Draw(canvas)
    draw.text((12, 8), f"before: {before.shape[3]} x {before.shape[2]}", fill="black")
    draw.text((24 + blocks.shape[3], 8), f"after: {after.shape[3]} x {after.shape[2]}", fill="black")
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.save(path)
