"""The source formats that ortconv reads; importing this package registers their lowerings."""

from __future__ import annotations

from ortconv.converters.onednn_graph import FRONTEND as ONEDNN
from ortconv.converters.openvino import FRONTEND as OPENVINO
from ortconv.frontend.source_format import Frontend

__all__ = ["FRONTENDS"]

FRONTENDS: tuple[Frontend, ...] = (OPENVINO, ONEDNN)
