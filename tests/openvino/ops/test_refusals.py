"""Ops that are refused with a reason."""

from __future__ import annotations

import pytest

from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedOpError


@pytest.mark.parametrize("op_type", ["RGBtoNV12", "PagedAttention", "StringTensorPack"])
def test_reason_is_given(op_type: str) -> None:
    (reason,) = [refusal.reason for refusal in REGISTRY.refusals if refusal.op_type == op_type]
    with pytest.raises(UnsupportedOpError) as refused:
        REGISTRY.lookup(op_type, 1)
    assert reason in refused.value.problem
    assert op_type in refused.value.problem
