"""A device that does not compute what the CPU computes is found before anything is translated on it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt_core.bundle import opened
from nmt_core.bundle.opened import OpenBundle
from nmt_core.config import SearchConfig
from nmt_core.errors import ModelError
from nmt_core.models.transformer import Transformer
from nmt_core.search import onnx_session
from nmt_core.search.agreement import largest_difference
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.search.step import Decoding, Floats, Ints, Stepper
from nmt_core.search.torch_step import TorchStepper

ROUNDING = 1e-4


class Faulty:
    """Stepper with a fault of a kind that a device may have."""

    def __init__(self, stepper: Stepper, fault: str) -> None:
        self.stepper, self.fault = stepper, fault
        self.vocab_size = stepper.vocab_size

    def start(self, source_BS: Ints, candidates: int) -> "FaultyDecoding":
        return FaultyDecoding(self.stepper.start(source_BS, candidates), self.fault)


class FaultyDecoding:
    def __init__(self, decoding: Decoding, fault: str) -> None:
        self.decoding, self.fault = decoding, fault
        self.before_R: Ints | None = None

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        read_R = tokens_R
        if self.fault == "reads the tokens of the step before" and self.before_R is not None:
            read_R = np.resize(self.before_R, len(tokens_R))
        self.before_R = tokens_R
        if self.fault == "rows do not change places" and len(parents_R) == parents_R.max() + 1:
            parents_R = np.sort(parents_R)
        log_prob_RC, id_RC = self.decoding.step(read_R, parents_R)
        return (np.full_like(log_prob_RC, np.nan) if self.fault == "returns NaN" else log_prob_RC), id_RC

    def keep(self, sentences: Ints) -> None:
        self.decoding.keep(sentences)


def test_two_backends_of_one_model_agree(tiny_model: Transformer, tiny_bundle: Path) -> None:
    assert largest_difference(OnnxStepper(tiny_bundle / "fp32", 100), TorchStepper(tiny_model)) < ROUNDING


@pytest.mark.parametrize("fault", ["reads the tokens of the step before", "rows do not change places", "returns NaN"])
def test_a_fault_is_no_rounding(tiny_model: Transformer, fault: str) -> None:
    right = TorchStepper(tiny_model)
    assert largest_difference(Faulty(right, fault), right) > 100 * ROUNDING


@pytest.fixture
def faulty_gpu(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle on a machine with a GPU that reads old tokens. Only the GPU is not real."""
    open_really = opened.open_stepper

    def open_on(graphs: Path, bundle: Any, device: str, step: str) -> Stepper:
        stepper = open_really(graphs, bundle, "cpu", step)
        return Faulty(stepper, "reads the tokens of the step before") if device == "cuda" else stepper

    monkeypatch.setattr(opened, "open_stepper", open_on)
    monkeypatch.setattr(onnx_session, "best_device", lambda: "cuda")
    monkeypatch.setitem(onnx_session.FASTEST, "cuda", ("fp32",))  # the bundle has no fp16
    monkeypatch.setattr(opened, "_MOST_DIFFERENCE", ROUNDING)
    return tiny_bundle


def test_a_gpu_that_computes_something_else_leaves_the_work_to_the_cpu(faulty_gpu: Path) -> None:
    bundle = OpenBundle(faulty_gpu)
    with pytest.warns(RuntimeWarning, match=r"something else in fp32 on this GPU .* nats.*: it computes on the CPU"):
        assert bundle.place_of(SearchConfig())[1] == "cpu"
    assert bundle.place_of(SearchConfig())[1] == "cpu", "said once"


def test_a_gpu_that_was_chosen_is_refused_if_it_computes_something_else(faulty_gpu: Path) -> None:
    with pytest.raises(ModelError, match=r"something else in fp32 on this GPU .*: use the CPU, or another version"):
        OpenBundle(faulty_gpu, "cuda").stepper(SearchConfig())


def test_a_gpu_that_computes_the_same_is_used(faulty_gpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faulty, "start", lambda self, *arguments: self.stepper.start(*arguments))
    assert OpenBundle(faulty_gpu).place_of(SearchConfig()) == ("fp32", "cuda")
