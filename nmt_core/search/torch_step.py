"""The step protocol in PyTorch.

Letters: see `nmt_core.models`.
"""

import copy

import torch
from torch import Tensor

from nmt_core.models.decoding import graphs_of, plain_kernels
from nmt_core.models.ensemble import EnsembleKernels
from nmt_core.models.kernels import Kernels
from nmt_core.models.model import TranslationModel
from nmt_core.search.step import Floats, Ints, Listed
from nmt_core.tokenizer.tokenizer import PAD_ID


class TorchStepper:
    """Model as `search.step.Stepper`, on the device of its parameters.

    Args:
        model: model to decode with. It is switched to evaluation mode.
        kernels: kernels of this model to compute with. None means plain PyTorch.
    """

    def __init__(self, model: TranslationModel, kernels: Kernels | EnsembleKernels | None = None) -> None:
        self.model = model.eval()
        self.graphs = graphs_of(kernels or plain_kernels(model))

    @property
    def vocab_size(self) -> int:
        """Number of pieces of the vocabulary."""
        return self.model.vocab_size

    def in_float64(self) -> "TorchStepper":
        """Return a copy that computes in float64, with plain PyTorch."""
        return TorchStepper(copy.deepcopy(self.model).double())

    def start(self, source_BS: Ints, candidates: int, listed: Listed | None = None) -> "TorchDecoding":
        """Encode a batch (see `search.step.Stepper`, or `ListedStepper` with a list)."""
        return TorchDecoding(self, source_BS, candidates, listed)


class TorchDecoding:
    """Decoding of one batch in PyTorch (see `search.step.Decoding`)."""

    @torch.inference_mode()
    def __init__(self, stepper: TorchStepper, source_BS: Ints, candidates: int, listed: Listed | None = None) -> None:
        graphs, self.device = stepper.graphs, stepper.model.device
        self.graph = graphs.step
        source = torch.from_numpy(source_BS).to(self.device)
        self.mask_BS = source != PAD_ID
        encoded: list[Tensor] = graphs.encoder(source)
        self.cross, self.past = encoded[: len(graphs.cross)], encoded[len(graphs.cross) :]
        if not graphs.has_first:
            sizes = {"rows": len(source), "past_positions": 0}
            self.past = [held.zeros(sizes, self.device) for held in graphs.past]
        self.position = 0
        self.choice = [torch.empty(candidates, dtype=torch.int64, device=self.device)]
        if listed:
            self.choice.append(torch.from_numpy(listed.penalty_BWE).to(self.device))
            self.choice += graphs.output(torch.from_numpy(listed.ids_WE).to(self.device))

    @torch.inference_mode()
    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        """Read one token per row (see `search.step.Decoding`)."""
        parents = torch.from_numpy(parents_R).to(self.device)
        (log_probs_RC, ids_RC), self.past = self.graph(
            torch.from_numpy(tokens_R).to(self.device),
            torch.tensor([self.position], device=self.device),
            self.mask_BS,
            self.choice,
            self.cross,
            [of_rows[parents] for of_rows in self.past],
        )
        self.position += 1
        return log_probs_RC.float().cpu().numpy(), ids_RC.cpu().numpy()

    @torch.inference_mode()
    def keep(self, sentences: Ints) -> None:
        """Remove the other sentences (see `search.step.Decoding`)."""
        places = torch.from_numpy(sentences).to(self.device)
        self.mask_BS = self.mask_BS[places]
        self.cross = [of_sentence[places] for of_sentence in self.cross]
        self.choice[1:2] = [penalty_BWE[places] for penalty_BWE in self.choice[1:2]]
