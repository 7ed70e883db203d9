"""Check graphs before they are published: fp32 against PyTorch, and every other precision against fp32."""

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
from nmt_core.export.calibration import Ranges, calibrate, largest_or_nan
from nmt_core.export.dev import Dev, spread
from nmt_core.export.losses import Change, change, too_much, unseen
from nmt_core.export.onnx_kernels import Int8Kernels, OnnxKernels
from nmt_core.export.onnx_rnn import OnnxRnnKernels
from nmt_core.export.parity import Parity, check_parity, unlike_without_scores
from nmt_core.export.speed import timed
from nmt_core.models.ensemble import Ensemble, EnsembleKernels, members_of
from nmt_core.models.model import TranslationModel
from nmt_core.models.recurrent.model import RecurrentModel
from nmt_core.scoring import SentenceStatistics
from nmt_core.search.onnx_session import Device, best_device
from nmt_core.search.onnx_step import SHORTLIST_STEP_FILE, STEP_FILE, UNSCORED_STEP_FILE, OnnxStepper
from nmt_core.search.shortlist import Shortlist, ShortlistStepper
from nmt_core.search.step import Stepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.language_tokens import language_token
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.translator import Translator

INT8_CACHE = "cache in int8"
FP32_CACHE = "cache in fp32"
"""Names of the ways in which int8 graphs keep keys and values. The cache is in fp32 where integers lose too much."""
_PIECES_WORTH_A_LIST = 8_000
"""Size of the vocabulary from which a search uses a shortlist unasked."""
_LOSS_UNASKED = 0.1
"""Loss of BLEU on dev sentences up to which a search uses a shortlist unasked."""
_LARGEST_IN_FP16 = torch.finfo(torch.float16).max
_SHARE_OF_FP16 = 0.5
"""Share of the fp16 maximum below which activations must stay on the dev set. Other text may have larger ones, and a
residual connection adds two of them."""


class Gates:
    """Gates for the graphs of one model.

    The gates use the options of `export` and not of `search`, because a model is exported once for any search that it
    may be loaded with later. So BLEU of each precision is measured with beam search and `export.parity_beam_size`.

    Args:
        model: the model, in evaluation mode.
        tokenizers: the tokenizers that it was trained with.
        dev: text that it was not trained on.
        config: the recipe, whose sections `export` and `languages` are used.
        threads: number of CPU threads to use.
    """

    def __init__(
        self, model: TranslationModel, tokenizers: Tokenizers, dev: Dev, config: PipelineConfig, threads: int
    ) -> None:
        self.model = model
        self.members = members_of(model)
        self.tokenizers = tokenizers
        self.dev = dev
        self.config = config.export
        self.languages = config.languages
        self.target_language = config.languages.target
        self.threads = threads
        self.search = _search_within(model.max_positions, self.config.parity_beam_size)
        self.bleu: dict[str, float] = {}
        self.tokens_per_second: dict[str, float] = {}
        self.devices: dict[str, Device] = {}
        self.changes: dict[str, Change] = {}
        """Change of BLEU by precision, against fp32. With the shortlist, against the same precision without it."""
        self.refused: dict[str, str] = {}
        self._statistics: dict[str, SentenceStatistics] = {}
        self.shortlist: Shortlist | None = None
        """Shortlist of the model. None if the sets have no graphs for one."""

    def check_parity(self, graphs: Path) -> Parity:
        """Compare fp32 with PyTorch, without the shortlist and with it. See `parity.check_parity`."""
        reference, sources = TorchStepper(self.model), self._ids(self.config.parity_sentences)
        exported = OnnxStepper(graphs, self.model.vocab_size)
        with _torch_threads(self.threads):
            parity = check_parity(reference, exported, sources, self.config, reference.in_float64)
            if not (shortlist := self.shortlist):
                return parity
            listed, exported_list = ShortlistStepper(reference, shortlist), self._stepper(graphs, "cpu", listed=True)
            with_list = check_parity(
                listed, exported_list, sources, self.config, lambda: ShortlistStepper(reference.in_float64(), shortlist)
            )
        return replace(parity, max_difference=max(parity.max_difference, with_list.max_difference))

    def refuse_unscored(self, graphs: Path, precision: Precision) -> str | None:
        """Compare greedy search with scores and without.

        Returns:
            The reason why the step without scores must not be published, or None.
        """
        scored, unscored = (
            OnnxStepper(graphs, self.model.vocab_size, "cpu", step) for step in (STEP_FILE, UNSCORED_STEP_FILE)
        )
        sources = self._ids(self.config.parity_sentences)
        if unlike := unlike_without_scores(scored, unscored, sources):
            self.refused[f"{precision} without scores"] = (
                f"{unlike} of {len(sources)} held-out sentences get another translation in greedy search without "
                "scores: many tokens are as likely as the likeliest, as in a model that is hardly trained. With this "
                "model, greedy search always computes scores, which takes longer"
            )
        return self.refused.get(f"{precision} without scores")

    def degrees(self, precision: Precision) -> tuple[str, ...]:
        """Return the names of the ways to make a precision, from the fastest to the most exact. See `kernels`."""
        has_two = precision == "int8" and Int8Kernels(self.members[0], self._ranges[0]).has_int8_cache
        return (INT8_CACHE, FP32_CACHE) if has_two else ("",)

    def kernels(self, precision: Precision, degree: str = "") -> OnnxKernels | EnsembleKernels:
        """Return the kernels with which a precision is exported. For int8, the model is calibrated first."""
        if precision == "int8":
            kernels = [
                Int8Kernels(member, ranges, cache_in_int8=degree != FP32_CACHE)
                for member, ranges in zip(self.members, self._ranges, strict=True)
            ]
            return EnsembleKernels(kernels) if kernels[1:] else kernels[0]
        return onnx_kernels(copy.deepcopy(self.model).half() if precision == "fp16" else self.model)

    def cannot_judge(self, name: str) -> str | None:
        """Return the reason why no loss of a precision or of the shortlist against fp32 could be seen, or None."""
        if problem := unseen(self.bleu["fp32"], self.config):
            self.refused[name] = f"BLEU of fp32 on {len(self._judged.sources):,} dev sentences is 0, {problem}"
        return self.refused.get(name)

    def cannot_make(self, precision: Precision) -> str | None:
        """Return the reason why there can be no graphs in this precision, or None."""
        if precision == "int8" and isinstance(self.members[0], RecurrentModel):
            self.refused[precision] = (
                "int8 graphs are made for Transformers only: a recurrent network passes its state through every step, "
                "which would be rounded each time. On CPUs it uses fp32"
            )
        if precision == "fp16":
            name, size = max((ranges.greatest() for ranges in self._ranges), key=largest_or_nan)
            if not size <= _SHARE_OF_FP16 * _LARGEST_IN_FP16:  # not(<=) refuses NaN as well
                self.refused[precision] = (
                    f"{name} reaches {size:,.0f} on dev text. The largest number in half precision is "
                    f"{_LARGEST_IN_FP16:,.0f}, and {_SHARE_OF_FP16:.0%} of it is allowed, because other text may have "
                    "larger numbers. On GPUs the model uses fp32. A smaller train.learning_rate_scale may keep the "
                    "numbers small"
                )
        return self.refused.get(precision)

    @cached_property
    def _ranges(self) -> list[Ranges]:
        """Ranges of each member's numbers on the dev set. A model alone is its only member."""
        sources = self._ids(self.config.calibration_sentences)
        with _torch_threads(self.threads):
            start = self.tokenizers.target.start_ids
            return [calibrate(member, sources, self.search, start) for member in self.members]

    def measure(self, folder: Path, precision: Precision, *, listed: bool = False) -> None:
        """Translate the dev set, with the shortlist or without, and measure BLEU and speed."""
        # A machine without a GPU computes fp16 graphs in fp32 and rounds the results of operators. That is close enough
        # to measure quality, but nothing overflows as it would on a GPU. So `cannot_make` looks at the magnitudes.
        device: Device = best_device() if precision == "fp16" else "cpu"
        stepper = self._stepper(folder / precision, device, listed=listed)
        translator = Translator(stepper, self.tokenizers, self.search, self.threads, languages=self.languages)
        name = with_shortlist(precision) if listed else precision
        dev = self._judged
        translator.translate(dev.sources[:1], to=dev.pairs[:1])  # set-up at the first call is not timed
        translations, rate = timed(translator, dev.sources, dev.pairs)
        texts = [translation.text for translation in translations]
        self._statistics[name] = SentenceStatistics("BLEU", texts, dev.references, self.target_language)
        self.bleu[name] = round(self._statistics[name].score, 4)
        self.tokens_per_second[name], self.devices[name] = round(rate, 1), device

    def refuse(self, folder: Path, precision: Precision, degree: str = "") -> str | None:
        """Measure a precision. Return the reason why it must not be published in this degree, or None."""
        self.measure(folder, precision)
        reason = self._lost(precision, "fp32")
        if reason and degree == INT8_CACHE:  # a more exact degree follows, which gets the name of the precision
            self._call(precision, f"{precision}, {degree}")
        self.refused |= {f"{precision}, {degree}" if degree == INT8_CACHE else precision: reason} if reason else {}
        return reason

    def refuse_shortlist(self, folder: Path, precisions: Sequence[Precision]) -> str | None:
        """Measure the shortlist in these precisions. Return the reason not to publish it, or None."""
        for precision in precisions:
            self.measure(folder, precision, listed=True)
            if reason := self._lost(with_shortlist(precision), precision):
                remedy = "raise export.shortlist_translations or export.shortlist_frequent"
                self.refused["shortlist"] = f"{reason}: {remedy}"
        return self.refused.get("shortlist")

    def shortlist_only_on_request(self, precisions: Sequence[Precision]) -> str:
        """Return the reason why a search must not use the measured shortlist unasked, or an empty string."""
        if self.model.vocab_size < _PIECES_WORTH_A_LIST:
            return f"the vocabulary has {self.model.vocab_size:,} pieces, fewer than {_PIECES_WORTH_A_LIST:,}"
        for precision in precisions:
            loss = self.changes[with_shortlist(precision)]
            if not -loss.difference <= _LOSS_UNASKED:  # not(<=) refuses NaN as well
                return f"the change of BLEU in {precision} is {loss}, a loss of more than {_LOSS_UNASKED:g}"
        return ""

    def costs(self) -> list[str]:
        """Return a line for each thing that is not published, with the reason and the cost in speed."""
        # If no degree of a precision is published, only the last one is reported
        shown = [name for name in self.refused if "," not in name or name.partition(",")[0] not in self.refused]
        return [f"{name} is not published{self._cost(name)}: {self.refused[name]}" for name in shown]

    def _cost(self, name: str) -> str:
        """Return what users get in place of a precision, with both speeds as measured on this machine."""
        precision, _, degree = name.partition(", ")
        instead = precision if degree else "fp32"
        if name not in self.tokens_per_second or self.devices[name] != self.devices[instead]:
            return ""
        rates = f"{self.tokens_per_second[instead]:,.0f} tokens/s in place of {self.tokens_per_second[name]:,.0f}"
        return f", users translate {f'with its {FP32_CACHE}' if degree else f'in {instead}'} ({rates})"

    def _lost(self, name: str, before: str) -> str | None:
        """Return the reason why one measurement loses too much BLEU against another, or None."""
        loss = self.changes[name] = change(self._statistics[before], self._statistics[name])
        problem = too_much(loss, self.config)
        what = f"BLEU on {len(self._judged.sources):,} dev sentences is {self.bleu[name]:.2f}, {loss} against {before}"
        return f"{what}; {problem}" if problem else None

    def _call(self, name: str, new: str) -> None:
        """Rename a measurement."""
        kinds: tuple[dict[str, Any], ...] = (self.bleu, self.tokens_per_second, self.devices, self.changes)
        for figures in (*kinds, self._statistics):
            figures[new] = figures.pop(name)

    def _stepper(self, graphs: Path, device: Device, *, listed: bool) -> Stepper:
        step = SHORTLIST_STEP_FILE if listed else STEP_FILE
        stepper = OnnxStepper(graphs, self.model.vocab_size, device, step)
        return ShortlistStepper(stepper, self.shortlist) if listed and self.shortlist else stepper

    @cached_property
    def _judged(self) -> Dev:
        """Sentences that each precision translates."""
        return self.dev.spread(self.config.quality_sentences)

    def _ids(self, count: int) -> list[list[int]]:
        """Return ids of `count` dev sentences, spread evenly over those with text and cut where a search cuts them."""
        return [self._encoded[place] for place in spread(count, len(self._encoded))]

    @cached_property
    def _encoded(self) -> list[list[int]]:
        encoded = self.tokenizers.source.encode(list(self.dev.sources))
        if not any(encoded):
            raise DataError(
                "export: every source of the dev set is empty, so nothing can be compared or calibrated: name files "
                "with text in corpus.dev, or none, so that the stage split takes the dev set out of the training text"
            )
        start = self.tokenizers.source.start_ids
        firsts = [language_token(self.languages, pair, self.tokenizers).source for pair in self.dev.pairs]
        return [
            (start + first + ids)[: self.search.max_source_tokens]
            for first, ids in zip(firsts or [[]] * len(encoded), encoded, strict=True)
            if ids
        ]


def with_shortlist(precision: str) -> str:
    """Return the name of the measurements of a precision with the shortlist."""
    return f"{precision}, shortlist"


def onnx_kernels(model: TranslationModel) -> OnnxKernels | EnsembleKernels:
    """Return the kernels with which a model is exported: in fp32, or in fp16 if it is in half precision."""
    kernels = [_onnx_kernels(member) for member in members_of(model)]
    return EnsembleKernels(kernels) if isinstance(model, Ensemble) else kernels[0]


def _onnx_kernels(model: TranslationModel) -> OnnxKernels:
    return OnnxRnnKernels(model) if isinstance(model, RecurrentModel) else OnnxKernels(model)


def _search_within(positions: int, beam_size: int) -> SearchConfig:
    """Return a search in which no sentence exceeds a model's positions."""
    search = SearchConfig(beam_size=beam_size)
    longest = positions - search.max_length_offset - 1
    return search.model_copy(update={"max_source_tokens": min(search.max_source_tokens, longest)})


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    """Set PyTorch's number of threads during the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
