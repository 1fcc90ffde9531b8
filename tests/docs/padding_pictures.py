"""Pictures of padding in docs/explanation/padding.md; as a script, this writes them."""

from __future__ import annotations

import dataclasses
import html

from ortconv.convolution_arithmetic import AutoPad, conv_size, conv_transpose_begin, conv_transpose_size, same_padding
from ortconv.convolution_arithmetic import split as split_padding
from tests.folders import ROOT

__all__ = ["FOLDER", "PICTURES", "Convolution", "Transposed"]

FOLDER = ROOT / "docs" / "explanation" / "padding"

_CELL, _ROW, _LABEL = 36, 30, 44
_STYLE = (
    "text{font:13px sans-serif;text-anchor:middle;fill:var(--md-typeset-color,#333)}"
    ".data{fill:#4f7fd6;fill-opacity:.35;stroke:#4f7fd6}"
    ".result{fill:#2e9e6b;fill-opacity:.35;stroke:#2e9e6b}"
    ".zero{fill:none;stroke:#8a8a8a;stroke-dasharray:4 3}"
    ".kernel{fill:#d68a2e;fill-opacity:.35;stroke:#d68a2e}"
)


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A convolution along one axis.

    Attributes:
        size: Size of the input.
        kernel: Size of the kernel.
        stride: Distance of neighbouring windows.
        begin: Zeros in front of the input.
        end: Zeros behind it.
        title: What the picture shows, for readers who cannot see it.
    """

    size: int
    kernel: int
    stride: int
    begin: int
    end: int
    title: str

    @property
    def windows(self) -> int:
        """Number of results."""
        return conv_size(self.size, self.kernel, self.stride, 1, self.begin + self.end)

    def svg(self) -> str:
        """Returns the picture: the padded input, and below it the window of each result."""
        cells = []
        for position in range(-self.begin, self.size + self.end):
            inside = 0 <= position < self.size
            cells.append(
                _box(position + self.begin, 0, 1, "data" if inside else "zero", f"x{position}" if inside else "0")
            )
        for window in range(self.windows):
            cells.append(_box(window * self.stride, window + 1, self.kernel, "kernel", f"y{window}"))
        return _svg(self.begin + self.size + self.end, self.windows + 1, ["input"], cells, self.title)


@dataclasses.dataclass(frozen=True)
class Transposed:
    """A transposed convolution along one axis.

    Attributes:
        size: Size of the input.
        kernel: Size of the kernel.
        stride: Distance of the places of neighbouring inputs.
        begin: Positions of the full result that are cut off in front.
        result: Size of the result.
        title: What the picture shows, for readers who cannot see it.
    """

    size: int
    kernel: int
    stride: int
    begin: int
    result: int
    title: str

    def svg(self) -> str:
        """Returns the picture: where each input is added, and below it which positions are the result."""
        full = conv_transpose_size(self.size, self.kernel, self.stride, 1)
        positions = range(max(full, self.begin + self.result))
        cells = [_box(each * self.stride, each, self.kernel, "kernel", f"x{each}") for each in range(self.size)]
        for position in positions:
            kept = 0 <= position - self.begin < self.result
            label = "cut" if not kept else f"y{position - self.begin}" if position < full else "0"
            cells.append(_box(position, self.size, 1, "result" if kept else "zero", label))
        return _svg(len(positions), self.size + 1, [*[""] * self.size, "result"], cells, self.title)


def _box(left: int, row: int, width: int, kind: str, label: str) -> str:
    x, y = _LABEL + left * _CELL + 2, row * _ROW + 2
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width * _CELL - 4}" height="{_ROW - 4}" rx="3"/>'
        f'<text x="{x + (width * _CELL - 4) / 2:g}" y="{y + 18}">{label}</text>'
    )


def _svg(columns: int, rows: int, labels: list[str], cells: list[str], title: str) -> str:
    width, height = _LABEL + columns * _CELL, rows * _ROW
    names = [
        f'<text x="{_LABEL / 2 - 2:g}" y="{row * _ROW + 20}">{label}</text>'
        for row, label in enumerate(labels)
        if label
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="padding" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img"><title>{html.escape(title)}</title><style>{_STYLE}</style>',
            *names,
            *cells,
            "</svg>\n",
        ]
    )


def _convolution(auto_pad: str) -> Convolution:
    size, kernel, stride = 6, 3, 2
    total = same_padding(size, kernel, stride, 1)
    begin, end = {
        "explicit": (1, 1),
        "valid": (0, 0),
        "same_upper": split_padding(AutoPad.SAME_UPPER, total),
        "same_lower": split_padding(AutoPad.SAME_LOWER, total),
    }[auto_pad]
    return Convolution(size, kernel, stride, begin, end, f"Convolution with auto_pad {auto_pad}")


def _transposed(title: str, *, begin: int = 0, end: int = 0, output_padding: int = 0) -> Transposed:
    size, kernel, stride = 3, 3, 2
    full = conv_transpose_size(size, kernel, stride, 1)
    return Transposed(size, kernel, stride, begin, full - begin - end + output_padding, title)


def _to_size(title: str, auto_pad: AutoPad, *, result: int = 6, begin: int = 0) -> Transposed:
    size, kernel, stride = 3, 5, 2
    full = conv_transpose_size(size, kernel, stride, 1)
    return Transposed(size, kernel, stride, conv_transpose_begin(auto_pad, full, result, 0, begin), result, title)


# OpenVINO's same_upper puts the larger half in front, as ONNX's SAME_LOWER does; so does the page of oneDNN.
_LARGER_IN_FRONT, _SMALLER_IN_FRONT = AutoPad.SAME_LOWER, AutoPad.SAME_UPPER

PICTURES: dict[str, Convolution | Transposed] = {
    **{f"convolution_{each}": _convolution(each) for each in ("explicit", "valid", "same_upper", "same_lower")},
    "transposed_full": _transposed("Transposed convolution without padding"),
    "transposed_explicit": _transposed("Transposed convolution with explicit padding", begin=1, end=1),
    "transposed_output_padding": _transposed("The same with output padding", begin=1, end=1, output_padding=1),
    "to_size_larger_in_front": _to_size("Larger half of the padding in front", _LARGER_IN_FRONT),
    "to_size_smaller_in_front": _to_size("Smaller half of the padding in front", _SMALLER_IN_FRONT),
    "to_size_pads_begin": _to_size("pads_begin in front", AutoPad.NOTSET, begin=2),
    "to_size_nothing_in_front": _to_size("No padding in front", AutoPad.NOTSET),
    "to_size_zeros": _to_size("Zeros behind the full result", AutoPad.NOTSET, result=11),
}
"""Name of the file -> picture."""


if __name__ == "__main__":
    for name, picture in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(picture.svg(), encoding="utf-8")
