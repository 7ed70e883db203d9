"""What a set of graphs must show before it is published: fp32 against PyTorch, every other precision against fp32."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from nmt_core.config import PipelineConfig, Precision, SearchConfig
from nmt_core.errors import DataError
from nmt_core.export.calibration import Ranges, calibrate
from nmt_core.export.dev import Dev, spread
from nmt_core.export.losses import Change, change, too_much
from nmt_core.export.onnx_kernels import Int8Kernels, OnnxKernels
from nmt_core.export.onnx_rnn import OnnxRnnKernels
from nmt_core.export.parity import Parity, check_parity, unlike_without_scores
from nmt_core.export.speed import timed
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.scoring import SentenceStatistics
from nmt_core.search.onnx_session import Device, best_device
from nmt_core.search.onnx_step import SHORTLIST_STEP_FILE, STEP_FILE, UNSCORED_STEP_FILE, OnnxStepper
from nmt_core.search.shortlist import Shortlist, ShortlistStepper
from nmt_core.search.step import Stepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.translator import Translator

INT8_CACHE = "cache in int8"
FP32_CACHE = "cache in fp32"
"""How int8 graphs keep keys and values: as integers, or, where that loses too much, as they are."""
_LARGEST_IN_FP16 = torch.finfo(torch.float16).max
_SHARE_OF_FP16 = 0.5
"""Of that, what a model's numbers may come to on the dev set: other text has larger ones, and two are summed up."""


class Gates:
    """The gates for one model.

    They search as `export` says and not as `search` does: a model is exported once, for whatever search it is loaded
    with later. So BLEU of the precisions is that of beam search with `export.parity_beam_size`.

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
        self.search = _search_within(model.max_positions, self.config.parity_beam_size)
        self.bleu: dict[str, float] = {}
        self.tokens_per_second: dict[str, float] = {}
        self.devices: dict[str, Device] = {}
        self.changes: dict[str, Change] = {}
        """Of BLEU against fp32; with the shortlist, against the same precision without."""
        self.refused: dict[str, str] = {}
        self._statistics: dict[str, SentenceStatistics] = {}
        self.shortlist: Shortlist | None = None
        """Of the model, if sets have the graphs for it."""

    def check_parity(self, graphs: Path) -> Parity:
        """Compare fp32 with PyTorch, without the shortlist and with it; see `parity.check_parity`."""
        reference, sources = TorchStepper(self.model), self._ids(self.config.parity_sentences)
        with _torch_threads(self.threads):
            parity = check_parity(reference, OnnxStepper(graphs, self.model.vocab_size), sources, self.config)
            if not self.shortlist:
                return parity
            listed = ShortlistStepper(reference, self.shortlist)
            with_list = check_parity(listed, self._stepper(graphs, "cpu", listed=True), sources, self.config)
        return replace(parity, max_difference=max(parity.max_difference, with_list.max_difference))

    def refuse_unscored(self, graphs: Path, precision: Precision) -> str:
        """Compare greedy search by steps with scores and without; why the latter must not be published, or nothing."""
        scored, unscored = (
            OnnxStepper(graphs, self.model.vocab_size, "cpu", step) for step in (STEP_FILE, UNSCORED_STEP_FILE)
        )
        sources = self._ids(self.config.parity_sentences)
        if unlike := unlike_without_scores(scored, unscored, sources):
            self.refused[f"{precision} without scores"] = (
                f"{unlike} of {len(sources)} held-out sentences are translated otherwise in greedy search if it "
                "computes no scores: many tokens are as likely as the likeliest, as in a model that has hardly learnt "
                "yet; with this model it always computes scores, which takes longer"
            )
        return self.refused.get(f"{precision} without scores", "")

    def degrees(self, precision: Precision) -> tuple[str, ...]:
        """Ways to make a precision, from the fastest to the exactest, each by what is said of it; see `kernels`."""
        has_two = precision == "int8" and Int8Kernels(self.model, self._ranges).has_int8_cache
        return (INT8_CACHE, FP32_CACHE) if has_two else ("",)

    def kernels(self, precision: Precision, degree: str = "") -> OnnxKernels:
        """What a set of graphs is exported with; for int8 after a look at how large the model's numbers get."""
        if precision == "int8":
            return Int8Kernels(self.model, self._ranges, cache_in_int8=degree != FP32_CACHE)
        return onnx_kernels(copy.deepcopy(self.model).half() if precision == "fp16" else self.model)

    def cannot_make(self, precision: Precision) -> str:
        """Why there can be no graphs in this precision, or nothing."""
        if precision == "int8" and isinstance(self.model, RecurrentModel):
            self.refused[precision] = (
                "int8 graphs are made of Transformers: a recurrent network hands its state on through every step, "
                "which would be rounded each time; fp32 is what it has for CPUs"
            )
        if precision == "fp16":
            name, size = self._ranges.greatest()
            if not size <= _SHARE_OF_FP16 * _LARGEST_IN_FP16:  # not(<=) refuses NaN as well
                self.refused[precision] = (
                    f"{name} gets as large as {size:,.0f} on dev text, and half precision ends at "
                    f"{_LARGEST_IN_FP16:,.0f}, of which {_SHARE_OF_FP16:.0%} are allowed, for other text may have "
                    "larger numbers; fp32 is what it has for GPUs; a smaller train.learning_rate_scale may keep them "
                    "small"
                )
        return self.refused.get(precision, "")

    @cached_property
    def _ranges(self) -> Ranges:
        """How large the model's numbers get on the dev set."""
        sources = self._ids(self.config.calibration_sentences)
        with _torch_threads(self.threads):
            return calibrate(self.model, sources, self.search)

    def measure(self, folder: Path, precision: Precision, *, listed: bool = False) -> None:
        """Translate the dev set, with the shortlist or without, for its BLEU and for the speed."""
        # A machine without a GPU computes fp16 in fp32 and rounds what operators give: near enough for the quality, but
        # what overflows on a GPU does not do so here, which is why `cannot_make` looks at how large numbers get.
        device: Device = best_device() if precision == "fp16" else "cpu"
        stepper = self._stepper(folder / precision, device, listed=listed)
        translator = Translator(stepper, self.tokenizers, self.search, self.threads)
        name = with_shortlist(precision) if listed else precision
        dev = self._judged
        translator.translate(dev.sources[:1])  # what is set up at the first call counts for no precision
        translations, rate = timed(translator, dev.sources)
        texts = [translation.text for translation in translations]
        self._statistics[name] = SentenceStatistics("BLEU", texts, dev.references, self.target_language)
        self.bleu[name] = round(self._statistics[name].score, 4)
        self.tokens_per_second[name], self.devices[name] = round(rate, 1), device

    def refuse(self, folder: Path, precision: Precision, degree: str = "") -> str:
        """Measure a precision; why it must not be published in this degree, or nothing."""
        self.measure(folder, precision)
        reason = self._lost(precision, "fp32")
        if reason and degree == INT8_CACHE:  # there is one that is exacter, which gets the name
            self._call(precision, f"{precision}, {degree}")
        self.refused |= {f"{precision}, {degree}" if degree == INT8_CACHE else precision: reason} if reason else {}
        return reason

    def refuse_shortlist(self, folder: Path, precisions: Sequence[Precision]) -> str:
        """Measure the shortlist in these precisions; why it must not be published, or nothing."""
        for precision in precisions:
            self.measure(folder, precision, listed=True)
            if reason := self._lost(with_shortlist(precision), precision):
                remedy = "raise export.shortlist_translations or export.shortlist_frequent"
                self.refused["shortlist"] = f"{reason}: {remedy}"
        return self.refused.get("shortlist", "")

    def costs(self) -> list[str]:
        """A line for each thing that is not published: why, and what speed that costs."""
        # Where no degree of a precision is published, the last one speaks for all of them
        shown = [name for name in self.refused if "," not in name or name.partition(",")[0] not in self.refused]
        return [f"{name} is not published{self._cost(name)}: {self.refused[name]}" for name in shown]

    def _cost(self, name: str) -> str:
        """What users have in place of a precision, as measured on this machine."""
        precision, _, degree = name.partition(", ")
        instead = precision if degree else "fp32"
        if name not in self.tokens_per_second or self.devices[name] != self.devices[instead]:
            return ""
        rates = f"{self.tokens_per_second[instead]:,.0f} tokens/s in place of {self.tokens_per_second[name]:,.0f}"
        return f", users translate {f'with its {FP32_CACHE}' if degree else f'in {instead}'} ({rates})"

    def _lost(self, name: str, before: str) -> str:
        """Why the loss of what was measured under a name is too much beside another, or nothing."""
        found = self.changes[name] = change(self._statistics[before], self._statistics[name])
        problem = too_much(found, self.config)
        what = f"BLEU on {len(self._judged.sources):,} dev sentences is {self.bleu[name]:.2f}, {found} against {before}"
        return f"{what}; {problem}" if problem else ""

    def _call(self, name: str, new: str) -> None:
        """Give what was measured under a name another one."""
        kinds: tuple[dict[str, Any], ...] = (self.bleu, self.tokens_per_second, self.devices, self.changes)
        for figures in (*kinds, self._statistics):
            figures[new] = figures.pop(name)

    def _stepper(self, graphs: Path, device: Device, *, listed: bool) -> Stepper:
        step = SHORTLIST_STEP_FILE if listed else STEP_FILE
        stepper = OnnxStepper(graphs, self.model.vocab_size, device, step)
        return ShortlistStepper(stepper, self.shortlist) if listed and self.shortlist else stepper

    @cached_property
    def _judged(self) -> Dev:
        """What each precision translates."""
        return self.dev.spread(self.config.quality_sentences)

    def _ids(self, count: int) -> list[list[int]]:
        """Ids of so many dev sentences, spread over those that are not empty, cut where a search would cut them."""
        return [self._encoded[place] for place in spread(count, len(self._encoded))]

    @cached_property
    def _encoded(self) -> list[list[int]]:
        encoded = self.tokenizers.source.encode(list(self.dev.sources))
        if not any(encoded):
            raise DataError(
                f"export: the sources of the dev set are empty, all {len(encoded):,} of them, and nothing can be "
                "compared or calibrated: name files in corpus.dev that hold text, or none, and the stage split takes "
                "the dev set out of the training text"
            )
        return [ids[: self.search.max_source_tokens] for ids in encoded if ids]


def with_shortlist(precision: str) -> str:
    """How figures of a precision with the shortlist are called."""
    return f"{precision}, shortlist"


def onnx_kernels(model: TranslationModel) -> OnnxKernels:
    """What a model is exported with in fp32, or in fp16 if it is in half precision."""
    return OnnxRnnKernels(model) if isinstance(model, RecurrentModel) else OnnxKernels(model)


def _search_within(positions: int, beam_size: int) -> SearchConfig:
    """A search that no sentence leads beyond a model's positions."""
    search = SearchConfig(beam_size=beam_size)
    longest = positions - search.max_length_offset - 1
    return search.model_copy(update={"max_source_tokens": min(search.max_source_tokens, longest)})


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    """PyTorch's number of threads, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
