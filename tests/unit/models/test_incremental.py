"""Step-by-step decoding with stored keys and values equals decoding everything at once."""

import pytest
import torch

from nmt_core.config import ModelConfig
from nmt_core.models.incremental import EncoderGraph, StepGraph
from nmt_core.models.kernels import Kernels
from nmt_core.models.transformer import Transformer
from nmt_core.tokenizer.tokenizer import PAD_ID

VOCABULARY = 40
SOURCE_BS = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 3, 0, 0, 0], [12, 13, 14, 15, 3, 0]])


def random_model(norm: str, tied: str) -> Transformer:
    torch.manual_seed(3)
    config = ModelConfig(
        d_model=32,
        d_ff=64,
        num_heads=4,
        encoder_layers=2,
        decoder_layers=3,
        norm=norm,
        tied_embeddings=tied,
    )
    return Transformer(config, VOCABULARY, max_positions=64).eval().requires_grad_(False)


def full_log_probs(model: Transformer, source_BS: torch.Tensor, target_BT: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities after the last token, [B, V], computed from the whole sequence."""
    log_probs_BV = model.output(model(source_BS, target_BT)[:, -1]).log_softmax(-1)
    log_probs_BV[:, [0, 2]] = float("-inf")
    return log_probs_BV


def by_id(log_probs_RC: torch.Tensor, ids_RC: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(log_probs_RC).scatter(1, ids_RC, log_probs_RC)


@pytest.mark.parametrize("tied", ["three_way", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_incremental_decoding_equals_full_decoding_while_beams_are_reordered(norm: str, tied: str) -> None:
    model = random_model(norm, tied)
    cross = EncoderGraph(Kernels(model))(SOURCE_BS)
    step = StepGraph(Kernels(model))
    mask_BS = SOURCE_BS != PAD_ID
    generator = torch.Generator().manual_seed(1)
    prefixes_RT = torch.full((3, 1), 2)
    parents_R, beams = torch.arange(3), 1
    past = [cross[0].new_empty(3, 4, 0, 8)] * len(cross)
    for position in range(8):
        everything = torch.zeros(VOCABULARY, dtype=torch.int64)
        past = [of_rows[parents_R] for of_rows in past]
        position_1 = torch.tensor([position])
        (log_probs_RC, ids_RC), past = step(prefixes_RT[:, -1], position_1, mask_BS, [everything], cross, past)
        expected_RV = full_log_probs(model, SOURCE_BS.repeat_interleave(beams, 0), prefixes_RT)
        torch.testing.assert_close(by_id(log_probs_RC, ids_RC), expected_RV, atol=1e-5, rtol=0)
        # Any beam may continue any other beam of its own sentence, and their number may change.
        chosen_BK = torch.randint(beams, (3, 4), generator=generator) + beams * torch.arange(3)[:, None]
        beams, parents_R = 4, chosen_BK.flatten()
        tokens_R = torch.randint(4, VOCABULARY, (12,), generator=generator)
        prefixes_RT = torch.cat([prefixes_RT[parents_R], tokens_R[:, None]], dim=1)


def test_padding_of_the_source_changes_nothing() -> None:
    model = random_model("post", "three_way")
    alone = EncoderGraph(Kernels(model))(SOURCE_BS[1:2, :3])
    together = EncoderGraph(Kernels(model))(SOURCE_BS)
    for one, many in zip(alone, together, strict=True):
        torch.testing.assert_close(one[0], many[1, :, :3], atol=1e-5, rtol=0)


def test_candidates_come_best_first_and_are_never_padding_or_start() -> None:
    model = random_model("post", "three_way")
    model.output.weight = torch.nn.Parameter(torch.zeros(VOCABULARY, 32))
    model.output.weight.data[[0, 2, 3]] = 1.0
    cross = EncoderGraph(Kernels(model))(SOURCE_BS)
    past = [cross[0].new_empty(3, 4, 0, 8)] * len(cross)
    (log_probs_RC, ids_RC), _ = StepGraph(Kernels(model))(
        torch.full((3,), 2), torch.zeros(1, dtype=torch.int64), SOURCE_BS != PAD_ID, [torch.zeros(6)], cross, past
    )
    assert log_probs_RC.shape == ids_RC.shape == (3, 6)
    assert (log_probs_RC.diff(dim=1) <= 0).all()
    assert not torch.isin(ids_RC, torch.tensor([0, 2])).any()
