"""The step protocol in PyTorch.

Letters in names of tensors: B sentences, R rows, S source positions, C candidates.
"""

import torch
from torch import Tensor

from nmt_core.models.incremental import EncoderGraph, StepGraph
from nmt_core.models.kernels import Kernels
from nmt_core.models.transformer import Transformer
from nmt_core.search.step import Floats, Ints
from nmt_core.tokenizer.tokenizer import PAD_ID


class TorchStepper:
    """A Transformer as `search.step.Stepper`, on whatever device its parameters are.

    Args:
        model: switched to evaluation mode here.
        kernels: what to compute with, of this model; None: plain PyTorch.
    """

    def __init__(self, model: Transformer, kernels: Kernels | None = None) -> None:
        self.model = model.eval()
        kernels = kernels or Kernels(model)
        self.encoder = EncoderGraph(kernels)
        self.decoder = StepGraph(kernels)

    @property
    def vocab_size(self) -> int:
        """Pieces of the vocabulary."""
        return self.model.vocab_size

    def start(self, source_BS: Ints, candidates: int) -> "TorchDecoding":
        """Encode a batch; see `search.step.Stepper`."""
        return TorchDecoding(self, source_BS, candidates)


class TorchDecoding:
    """One batch in PyTorch; see `search.step.Decoding`."""

    @torch.inference_mode()
    def __init__(self, stepper: TorchStepper, source_BS: Ints, candidates: int) -> None:
        self.decoder = stepper.decoder
        self.device = stepper.model.positions_LM.device
        source = torch.from_numpy(source_BS).to(self.device)
        self.mask_BS = source != PAD_ID
        self.cross: list[Tensor] = stepper.encoder(source)
        self.past = [x_BHSD[:, :, :0] for x_BHSD in self.cross]
        self.candidates = torch.empty(candidates, dtype=torch.int64, device=self.device)

    @torch.inference_mode()
    def step(self, tokens_R: Ints, parents_R: Ints) -> tuple[Floats, Ints]:
        """One token per row; see `search.step.Decoding`."""
        log_probs_RC, ids_RC, self.past = self.decoder(
            torch.from_numpy(tokens_R).to(self.device),
            torch.from_numpy(parents_R).to(self.device),
            self.mask_BS,
            self.candidates,
            self.cross,
            self.past,
        )
        return log_probs_RC.float().cpu().numpy(), ids_RC.cpu().numpy()

    @torch.inference_mode()
    def keep(self, sentences: Ints) -> None:
        """Drop the other sentences; see `search.step.Decoding`."""
        places = torch.from_numpy(sentences).to(self.device)
        self.mask_BS = self.mask_BS[places]
        self.cross = [x_BHSD[places] for x_BHSD in self.cross]
