"""Steppers that are simple enough to be right.

One reads a table, one decodes everything again at each step, and one draws random probabilities.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch

from nmt_core.models.transformer import Transformer
from nmt_core.search.step import Floats, Ints, Listed, Stepper
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID

Prefix = tuple[int, ...]
LogProbs = Callable[[Prefix, Prefix], np.ndarray]
"""Function from source ids with end mark and target ids so far to the log-probabilities of all tokens."""


class PrefixStepper:
    """Stepper that remembers only the tokens: each step requests the log-probabilities after each whole prefix."""

    def __init__(self, vocab_size: int, log_probs: LogProbs) -> None:
        self.vocab_size = vocab_size
        self.log_probs = log_probs
        self.batch_sizes: list[int] = []
        """Sentences in the batch at each step."""

    def start(self, source_BS: Ints, candidates: int, listed: Listed | None = None) -> "PrefixDecoding":
        return PrefixDecoding(self, source_BS, candidates, listed)


class PrefixDecoding:
    def __init__(self, stepper: PrefixStepper, source_BS: Ints, candidates: int, listed: Listed | None = None) -> None:
        self.stepper = stepper
        self.listed = listed
        self.penalties = list(listed.penalty_BWE.reshape(len(source_BS), -1)) if listed else []
        self.sources: list[Prefix] = [tuple(row[row != PAD_ID].tolist()) for row in source_BS]
        self.candidates = candidates
        self.prefixes: list[Prefix] = [() for _ in source_BS]

    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        self.stepper.batch_sizes.append(len(self.sources))
        assert len(tokens_R) % len(self.sources) == 0
        beams = len(tokens_R) // len(self.sources)
        self.prefixes = [
            (*self.prefixes[parent], token) for token, parent in zip(tokens_R.tolist(), parents_R.tolist(), strict=True)
        ]
        rows = []
        for row, prefix in enumerate(self.prefixes):
            assert prefix[0] == BOS_ID
            rows.append(self.stepper.log_probs(self.sources[row // beams], prefix[1:]))
        log_probs_RV = np.array(rows, dtype=np.float32)
        if self.listed:
            log_probs_RV = log_probs_RV[:, self.listed.ids_WE.ravel()] + np.repeat(self.penalties, beams, axis=0)
            log_probs_RV -= np.logaddexp.reduce(log_probs_RV, axis=1, keepdims=True)
        log_probs_RV[:, [PAD_ID, BOS_ID]] = -np.inf
        ids_RC = np.argsort(-log_probs_RV, axis=1, kind="stable")[:, : self.candidates]
        return np.take_along_axis(log_probs_RV, ids_RC, axis=1), ids_RC

    def keep(self, sentences: Ints) -> None:
        assert (np.diff(sentences) > 0).all()
        self.sources = [self.sources[place] for place in sentences]
        self.penalties = [self.penalties[place] for place in sentences] if self.listed else []


def full_decoding(model: Transformer) -> LogProbs:
    @torch.inference_mode()
    def log_probs(source: Prefix, target: Prefix) -> np.ndarray:
        states = model(torch.tensor([source]), torch.tensor([[BOS_ID, *target]]))
        return model.output(states[0, -1]).log_softmax(-1).numpy()

    return log_probs


@pytest.fixture(scope="session")
def reference() -> Callable[[Transformer], Stepper]:
    """Stepper that decodes every prefix from its beginning, alone and without padding, by `Transformer.forward`."""
    return lambda model: PrefixStepper(model.vocab_size, full_decoding(model))


@pytest.fixture
def scripted() -> Callable[[Mapping[Prefix, Mapping[int, float]]], PrefixStepper]:
    """Make a stepper from a table: the target so far gives the probability of each next token.

    Others have probability 0.
    """

    def make(table: Mapping[Prefix, Mapping[int, float]], vocab_size: int = 8) -> PrefixStepper:
        def log_probs(source: Prefix, target: Prefix) -> np.ndarray:
            probabilities = np.zeros(vocab_size)
            for token, probability in table.get(target, {}).items():
                probabilities[token] = probability
            with np.errstate(divide="ignore"):
                return np.log(probabilities)

        return PrefixStepper(vocab_size, log_probs)

    return make


@pytest.fixture(scope="session")
def by_chance() -> Callable[..., PrefixStepper]:
    """Make a stepper whose log-probabilities are random for every source and prefix, and equal for equal seeds.

    `grain`: they are multiples of it, so that many are equal. 0 means that none are equal.
    """

    def make(seed: int, vocab_size: int = 9, grain: float = 0.0) -> PrefixStepper:
        def log_probs(source: Prefix, target: Prefix) -> np.ndarray:
            generator = np.random.default_rng([seed, *source, vocab_size, *target])
            logits = generator.normal(scale=2.0, size=vocab_size)
            found = logits - np.logaddexp.reduce(logits)
            return np.round(found / grain) * grain if grain else found

        return PrefixStepper(vocab_size, log_probs)

    return make
