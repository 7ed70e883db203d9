"""What a set of graphs must show before it is published: fp32 against PyTorch, every other precision against fp32."""

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from nmt_core.config import PipelineConfig, Precision, SearchConfig
from nmt_core.export.calibration import calibrate
from nmt_core.export.dev import Dev
from nmt_core.export.onnx_kernels import Int8Kernels, OnnxKernels
from nmt_core.export.onnx_rnn import OnnxRnnKernels
from nmt_core.export.parity import Parity, check_parity
from nmt_core.models.model import TranslationModel
from nmt_core.models.rnn import RecurrentModel
from nmt_core.scoring import score
from nmt_core.search.onnx_step import Device, OnnxStepper, best_device
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.translator import Translator


class Gates:
    """The gates for one model.

    Args:
        model: in evaluation mode.
        tokenizers: with which it was trained.
        dev: text that it was not trained on.
        config: sections `export` and `languages`.
        threads: CPU threads to use.
    """

    def __init__(
        self, model: TranslationModel, tokenizers: Tokenizers, dev: Dev, config: PipelineConfig, threads: int
    ) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.dev = dev
        self.config = config.export
        self.target_language = config.languages.target
        self.threads = threads
        self.search = SearchConfig(beam_size=self.config.parity_beam_size)
        self.bleu: dict[str, float] = {}
        self.tokens_per_second: dict[str, float] = {}
        self.refused: dict[str, str] = {}

    def check_parity(self, graphs: Path) -> Parity:
        """Compare fp32 with PyTorch; see `parity.check_parity`."""
        onnx = OnnxStepper(graphs, self.model.vocab_size)
        with _torch_threads(self.threads):
            return check_parity(TorchStepper(self.model), onnx, self._ids(self.config.parity_sentences), self.config)

    def kernels(self, precision: Precision) -> OnnxKernels:
        """What a set of graphs is exported with; for int8 after a look at how large the model's numbers get."""
        if precision == "int8":
            sources = self._ids(self.config.calibration_sentences)
            with _torch_threads(self.threads):
                return Int8Kernels(self.model, calibrate(self.model, sources, self.search))
        return onnx_kernels(copy.deepcopy(self.model).half() if precision == "fp16" else self.model)

    def cannot_make(self, precision: Precision) -> str:
        """Why there can be no graphs in this precision, or nothing."""
        if precision == "int8" and isinstance(self.model, RecurrentModel):
            self.refused[precision] = (
                "int8 graphs are made of Transformers: a recurrent network hands its state on through every step, "
                "which would be rounded each time; fp32 is what it has for CPUs"
            )
        return self.refused.get(precision, "")

    def measure(self, folder: Path, precision: Precision) -> None:
        """Translate the dev set, for its BLEU and for the speed."""
        # A machine without a GPU computes fp16 as well, slowly: rounding, which decides the quality, is the same.
        device: Device = best_device() if precision == "fp16" else "cpu"
        stepper = OnnxStepper(folder / precision, self.model.vocab_size, device)
        translator = Translator(stepper, self.tokenizers, self.search, self.threads)
        count = self.config.quality_sentences
        started = time.monotonic()
        translations = translator.translate(self.dev.sources[:count])
        seconds = max(time.monotonic() - started, 1e-9)
        texts = [translation.text for translation in translations]
        self.bleu[precision] = score("dev", texts, self.dev.references[:count], self.target_language)[0].score
        self.tokens_per_second[precision] = round(sum(one.tokens for one in translations) / seconds, 1)

    def refuse(self, folder: Path, precision: Precision) -> str:
        """Measure a precision; why it must not be published, or nothing."""
        self.measure(folder, precision)
        loss = self.bleu["fp32"] - self.bleu[precision]
        if not loss <= self.config.max_bleu_loss:  # not(<=) refuses NaN as well
            self.refused[precision] = (
                f"BLEU on {len(self.dev.sources[: self.config.quality_sentences]):,} dev sentences is "
                f"{self.bleu[precision]:.2f}, {loss:.2f} less than in fp32; export.max_bleu_loss="
                f"{self.config.max_bleu_loss:g} is allowed"
            )
        return self.refused.get(precision, "")

    def _ids(self, count: int) -> list[list[int]]:
        """Ids of the first dev sentences that are not empty, cut where a search would cut them."""
        encoded = self.tokenizers.source.encode(list(self.dev.sources[:count]))
        return [ids[: self.search.max_source_tokens] for ids in encoded if ids]


def onnx_kernels(model: TranslationModel) -> OnnxKernels:
    """What a model is exported with in fp32, or in fp16 if it is in half precision."""
    return OnnxRnnKernels(model) if isinstance(model, RecurrentModel) else OnnxKernels(model)


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    """PyTorch's number of threads, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
