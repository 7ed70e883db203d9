"""Ensembles: models of one shape and one vocabulary that translate together (Sutskever et al. 2014, section 3.6).

At each step, the probability of a token is the mean of its probabilities in the members. Its logarithm is what a search
adds up: log p = log (1/K sum over k of p_k). This mean is a distribution, which sampling, scores and alignments of
forced translations need. The mean of log-probabilities, a geometric mean, is not one before it is normalised.

The members' graphs are parts of one graph, so searches, bundles and backends see one model. Its tensors `cross` and
`past` are the members' tensors, one member after the other.

Letters: see `nmt_core.models`.
"""

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt_core.models.incremental import DecodingStep
from nmt_core.models.kernels import Kernels
from nmt_core.models.model import TranslationModel


class Ensemble(TranslationModel):
    """Models that translate together. It is for decoding only, and has no `forward`.

    Args:
        members: models of one shape and one vocabulary, in evaluation mode.
    """

    def __init__(self, members: Sequence[TranslationModel]) -> None:
        first = members[0]
        super().__init__(first.config, first.vocab_size, first.max_positions, first.source_vocab_size)
        self.members = nn.ModuleList(members)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return members_of(self)[0].device


def members_of(model: TranslationModel) -> list[TranslationModel]:
    """Return the members of an ensemble, or a list with the model itself if it is not one."""
    return cast(list[TranslationModel], list(model.members)) if isinstance(model, Ensemble) else [model]


class EnsembleKernels:
    """Kernels of each member of an ensemble, in order.

    Args:
        members: kernels of one kind, each with its model.
    """

    screen = None
    """None: no screen selects the tokens that can be the best of a mean."""

    def __init__(self, members: Sequence[Kernels]) -> None:
        self.members = members


def log_mean(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the mean of probabilities, for log-probabilities of one shape. No sum overflows."""
    stacked = torch.stack(list(log_probs), dim=0)
    largest = stacked.amax(dim=0)
    largest = largest.masked_fill(largest == float("-inf"), 0.0)  # minus infinity in all members stays so
    return largest + ((stacked - largest).exp().sum(dim=0).log() - math.log(len(log_probs)))


class EnsembleEncoderGraph(nn.Module):
    """Graph of the encoders of all members.

    Args:
        encoders: graph of each member's encoder.
        cross: number of tensors `cross` of a member.
    """

    def __init__(self, encoders: Sequence[nn.Module], cross: int) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.cross = cross

    def forward(self, source_BS: Tensor) -> list[Tensor]:
        """Return the tensors `cross` of all members, and then their first states, for source ids [B, S]."""
        encoded: list[list[Tensor]] = [encoder(source_BS) for encoder in self.encoders]
        cross = [tensor for of_member in encoded for tensor in of_member[: self.cross]]
        return cross + [tensor for of_member in encoded for tensor in of_member[self.cross :]]


class EnsembleOutputGraph(nn.Module):
    """Graph of the output matrices of all members, for a shortlist.

    Args:
        outputs: graph of each member's output matrix.
    """

    def __init__(self, outputs: Sequence[nn.Module]) -> None:
        super().__init__()
        self.outputs = nn.ModuleList(outputs)

    def forward(self, ids_WE: Tensor) -> list[Tensor]:
        """Return the tensors of all members for these ids of the vocabulary."""
        return [tensor for output in self.outputs for tensor in output(ids_WE)]


class EnsembleStepGraph(nn.Module):
    """Graph of one step of all members, from the last token of each row to its most probable successors.

    Args:
        steps: graph of each member's step.
    """

    def __init__(self, steps: Sequence[DecodingStep]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(
        self,
        tokens_R: Tensor,
        position_1: Tensor,
        source_mask_BS: Tensor,
        choice: Sequence[Tensor],
        cross: list[Tensor],
        past: list[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Decode one more position. See `incremental.StepGraph` for the arguments and the results."""
        steps, penalty = cast(list[DecodingStep], list(self.steps)), list(choice[1:2])
        log_probs, present = list[Tensor](), list[Tensor]()
        for number, step in enumerate(steps):
            of_member, before, output = (part_of(held, number, len(steps)) for held in (cross, past, choice[2:]))
            state_RM, after = step.read(tokens_R, position_1, source_mask_BS, of_member, before)
            logits_RV = step.kernels.logits(state_RM, [*penalty, *output]).float()
            log_probs.append(F.log_softmax(logits_RV, dim=-1))
            present += after
        return steps[0].kernels.best(log_mean(log_probs), choice), present


def part_of(held: Sequence[Tensor], number: int, members: int) -> list[Tensor]:
    """Return the tensors of one member."""
    count = len(held) // members
    return list(held[number * count : (number + 1) * count])
