"""The source formats that ortconv reads; their lowerings are imported when one is looked up."""

from __future__ import annotations

from ortconv.converters.onednn_graph import FRONTEND as ONEDNN
from ortconv.converters.openvino import FRONTEND as OPENVINO
from ortconv.frontend.source_format import Frontend

__all__ = ["FRONTENDS"]

FRONTENDS: tuple[Frontend, ...] = (OPENVINO, ONEDNN)
