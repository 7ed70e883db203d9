"""Whether a device computes in bf16, and what is said where it does not."""

import pytest
import torch

from nmt_core.train.precision import compute_dtype, missing_bf16

V100 = torch.device("cuda")


@pytest.fixture
def old_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU from before bf16: what PyTorch says of one, for none is here."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla V100")


@pytest.mark.usefixtures("old_gpu")
def test_an_older_gpu_is_named_and_why_it_is_slow() -> None:
    assert compute_dtype("auto", V100) == torch.float32
    said = missing_bf16("auto", V100)
    assert said
    assert "Tesla V100" in said
    assert "fp32" in said


@pytest.mark.usefixtures("old_gpu")
def test_nothing_is_said_where_fp32_was_asked_for_or_there_is_no_gpu() -> None:
    assert missing_bf16("fp32", V100) is None
    assert missing_bf16("auto", torch.device("cpu")) is None
