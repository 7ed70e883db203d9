"""Decide the values of a recipe from what was found of the text and the machine, each with its reason.

docs/how-to/start-from-your-text.md has the rules as a table. A rule comes from a measurement or a publication, which
its reason names.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nmt_core.advice import vocabulary
from nmt_core.advice.findings import Findings, Sample
from nmt_core.advice.machine import Machine
from nmt_core.advice.vocabulary import Vocabulary
from nmt_core.config import ModelConfig
from nmt_core.config.clean import CleanConfig
from nmt_core.errors import ConfigError, counted
from nmt_core.models.counts import weights_per_token

_SAMPLED_LINES = 20_000
_BLEU_LANGUAGES = frozenset({"zh", "ja"})  # their words are told apart by a tokenizer of sacreBLEU
_TOKENS_OF_A_PAIR = 25
_LONGEST_TOKENS = 512
_LEAST_UPDATES, _MOST_UPDATES = 1_000, 300_000
_HELD_OUT, _HELD_OUT_OF_LARGE = 1_000, 2_000
_ANCHOR_PAIRS, _ANCHOR_EPOCHS, _FALL = 29_000, 75, 0.28
_SHARE_OF_UPDATES = 0.25
_RARE_LETTER = 2_000  # a letter is rare if fewer than one of this many is it
_MEMORY_OF_A_PAIR = 120 * 23
_SHARD_PAIRS = 250_000


@dataclass(frozen=True)
class Line:
    """A key of the recipe, its value, and the reason for it."""

    key: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Part:
    """A section of the recipe, with its lines."""

    name: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Question:
    """A decision that a user may take otherwise."""

    key: str
    """Option that it decides, or a name for several."""
    text: str
    reason: str
    default: str
    choices: tuple[str, ...] = ()
    least: float = 0
    most: float = math.inf
    is_whole: bool = True

    def check(self, answer: str) -> str:
        """Return an answer if it is one of the choices, or a number within the bounds.

        Raises:
            ConfigError: it is not.
        """
        answer = answer.strip() or self.default
        if self.choices:
            if answer not in self.choices:
                raise ConfigError(f"{self.key}: {answer!r} is not one of {', '.join(self.choices)}: choose one")
            return answer
        try:
            number = float(answer.replace(",", "").replace("_", ""))
        except ValueError:
            raise ConfigError(f"{self.key}: {answer!r} is not a number: give one, such as {self.default}") from None
        if not self.least <= number <= self.most or (self.is_whole and number != int(number)):
            kind = "a whole number" if self.is_whole else "a number"
            most = f" to {self.most:,.0f}" if math.isfinite(self.most) else " or more"
            raise ConfigError(f"{self.key}: {answer} does not fit: give {kind} of {self.least:g}{most}")
        return f"{number:.0f}" if self.is_whole else f"{number:g}"


Ask = Callable[[Question], str]
"""Function that answers a question. `default_of` gives the advised answer."""


def default_of(question: Question) -> str:
    """Return the advised answer."""
    return question.default


@dataclass(frozen=True)
class Size:
    """A size of the model, and the text that it suits."""

    name: str
    model: ModelConfig
    peak: float
    """Highest learning rate."""
    from_pairs: int
    reason: str


SIZES = (
    Size(
        "tiny",
        ModelConfig(d_model=128, d_ff=256, num_heads=4, encoder_layers=4, decoder_layers=4, dropout=0.3),
        5e-3,
        0,
        "as in the recipe multi30k-en-de: with 29,000 pairs, a larger Transformer scores lower (Wu et al. 2021)",
    ),
    Size(
        "small",
        ModelConfig(d_model=256, d_ff=1_024, num_heads=4, encoder_layers=4, decoder_layers=4, dropout=0.3),
        2e-3,
        60_000,
        "between the sizes for 29,000 and for 160,000 pairs. Little text needs a narrow model and much dropout (Araabi "
        "and Monz 2020)",
    ),
    Size(
        "medium",
        ModelConfig(d_model=512, d_ff=1_024, num_heads=4, encoder_layers=6, decoder_layers=6, dropout=0.3),
        7e-4,
        150_000,
        "the size that fairseq (Ott et al. 2019) uses for the 160,000 pairs of IWSLT 2014",
    ),
    Size(
        "base",
        ModelConfig(),
        7e-4,
        1_000_000,
        "the base Transformer of Vaswani et al. (2017), published for 4.5 million pairs",
    ),
    Size(
        "big",
        ModelConfig(d_model=1_024, d_ff=4_096, num_heads=16),
        5e-4,
        10_000_000,
        "the big Transformer of Vaswani et al. (2017), as they trained it on 36 million pairs",
    ),
)
"""Sizes of the model, the smallest first."""


@dataclass
class _Draft:
    """Decisions so far."""

    findings: Findings
    machine: Machine
    ask: Ask
    parts: list[Part] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        return max(1, self.findings.kept_pairs)

    def add(self, name: str, *lines: Line | None) -> None:
        if kept := tuple(line for line in lines if line):
            self.parts.append(Part(name, kept))


def decide(findings: Findings, machine: Machine, ask: Ask = default_of) -> list[Part]:
    """Return the sections of a recipe that fits the text and the machine, without its name, languages and corpora.

    Args:
        findings: what is known of the text.
        machine: the machine that will train.
        ask: function that answers the questions on the way.
    """
    draft = _Draft(findings, machine, ask)
    _clean(draft)
    _split(draft)
    hours = float(_asked(draft, _hours(machine)))
    one, lines = _vocabulary(draft)
    draft.add("tokenizer", *lines)
    longest = _longest(one)
    draft.add("encode", Line("max_length", longest, _why_longest(one)))
    size, why = _size(draft, hours, one)
    draft.add(
        "model", *_model_lines(size, why, draft.pairs, is_separate=any(line.key == "vocabularies" for line in lines))
    )
    draft.add("train", *_train_lines(draft, size, hours, one, longest))
    draft.add(
        "average",
        Line("strategy", "best", "training may stop after its best checkpoint"),
        Line(
            "checkpoints", 5, "worth 1 to 2 BLEU over a single one, and better than ten (the record of the benchmarks)"
        ),
    )
    draft.add("registry", *_registry_lines(draft))
    return draft.parts


def _asked(draft: _Draft, question: Question) -> str:
    return question.check(draft.ask(question))


def _clean(draft: _Draft) -> None:
    """Decide thresholds of filters. They stay at their defaults unless the sample shows that these do not fit."""
    sample, defaults = draft.findings.sample, CleanConfig()
    lines: list[Line | None] = []
    if sample and sample.max_words > defaults.max_words:
        most = int(math.ceil(sample.max_words / 50) * 50)
        why = (
            f"one side in a thousand has more than {sample.max_words:,} words, and the default is {defaults.max_words}"
        )
        lines.append(Line("max_words", most, why))
        lines.append(Line("max_characters", most * 10, "ten for each word, as by default"))
    if sample and not 1 / 1.5 < sample.unusual_ratio < 1.5:
        why = "the median of the sample, far from what is usual for these languages"
        lines.append(Line("expected_length_ratio", round(sample.length_ratio, 2), why))
    needed = draft.machine.cores * _SHARD_PAIRS * _MEMORY_OF_A_PAIR
    if needed > draft.machine.memory / 2 and draft.pairs > _SHARD_PAIRS / 2:
        fitting = draft.machine.memory / 2 / (draft.machine.cores * _MEMORY_OF_A_PAIR)
        why = f"{draft.machine.cores} workers with the default of {_SHARD_PAIRS:,} could need over half of the memory"
        lines.append(Line("shard_pairs", max(10_000, int(fitting // 10_000) * 10_000), why))
    draft.add("clean", *lines)


def _split(draft: _Draft) -> None:
    """Decide how many pairs are held out where the text brings no dev set or no test set."""
    default = _HELD_OUT_OF_LARGE if draft.pairs >= 2_000_000 else min(_HELD_OUT, max(50, draft.pairs // 20))
    lines = []
    for role, what in (("dev", "checks training"), ("test", "decides whether a model becomes champion")):
        if draft.findings.of_role(role):  # type: ignore[arg-type]
            continue
        why = f"no {role} set is named, so these pairs are taken out of the text. This set {what}: " + (
            "a twentieth of the text" if default < _HELD_OUT else "enough for an interval of 1 to 2 BLEU on either side"
        )
        most = max(10, draft.pairs // 4)
        question = Question(
            f"split.{role}_pairs", f"Pairs to hold out as {role} set", why, str(default), least=1, most=most
        )
        lines.append(Line(f"{role}_pairs", int(_asked(draft, question)), why))
    draft.add("split", *lines)


def _hours(machine: Machine) -> Question:
    return Question(
        "hours",
        "Hours that training may take",
        f"decides how large a model may be on this machine ({machine.shown})",
        "24" if machine.gpus else "12",
        least=0.1,
        most=10_000,
        is_whole=False,
    )


def _vocabulary(draft: _Draft) -> tuple[Vocabulary, list[Line]]:
    """Decide the vocabulary. Returns the one of the target, too, from which lengths follow."""
    sample, pairs = draft.findings.sample, draft.pairs
    separate = sample is not None and not _share_letters(sample)
    lines = []
    if separate:
        why = "the languages are written in different letters, so they have few pieces in common"
        lines.append(Line("vocabularies", "separate", why))
    found = _fitted(sample, pairs, separate=separate)
    asked = []
    for key, one, side in zip(("vocab_size", "target_vocab_size"), found, ("source", "target"), strict=False):
        why = _why_pieces(one, pairs)
        of_side = f" of the {side}" if separate else ""
        question = Question(
            f"tokenizer.{key}", f"Pieces in the vocabulary{of_side}", why, str(one.size), least=64, most=256_000
        )
        asked.append(Line(key, int(_asked(draft, question)), why))
    lines += asked
    characters = max(_characters(sample, separate)) if sample else 0
    if sample and _coverage(sample) < 1:
        lines.append(
            Line("character_coverage", 0.9995, f"the text has {characters:,} different characters, many of them rare")
        )
    return found[-1] if asked[-1].value == found[-1].size else Vocabulary(
        asked[-1].value, None, found[-1].lengths
    ), lines


def _fitted(sample: Sample | None, pairs: int, *, separate: bool) -> list[Vocabulary]:
    """Return the vocabulary of both languages, or of each."""
    if sample is None:
        return [vocabulary.by_pairs(pairs)]
    kept = sample.kept.head(_SAMPLED_LINES)
    factor = pairs / max(1, kept.height)
    sides = [kept["source"].to_list(), kept["target"].to_list()]
    coverage = _coverage(sample)
    if separate:
        return [vocabulary.by_frequency(lines, factor, coverage) for lines in sides]
    return [vocabulary.by_frequency([*sides[0], *sides[1]], factor, coverage)]


def _coverage(sample: Sample) -> float:
    lines = [line for side in ("source", "target") for line in sample.kept[side].head(_SAMPLED_LINES)]
    return vocabulary.coverage_of(lines)


def _characters(sample: Sample, separate: bool) -> list[int]:
    return [len(set("".join(sample.kept[side].head(_SAMPLED_LINES)))) for side in ("source", "target")]


def _share_letters(sample: Sample) -> bool:
    """Return True if most letters of each side, by their frequency, are frequent on the other side too.

    Names in Latin letters within Korean text do not make the letters shared.
    """
    counts = [
        Counter(letter for letter in "".join(sample.kept[side].head(2_000)).lower() if letter.isalpha())
        for side in ("source", "target")
    ]
    shares = []
    for own, other in (counts, counts[::-1]):
        frequent = {letter for letter, count in other.items() if count * _RARE_LETTER > other.total()}
        shares.append(sum(count for letter, count in own.items() if letter in frequent) / max(1, own.total()))
    return min(shares) >= 0.5


def _why_pieces(one: Vocabulary, pairs: int) -> str:
    rule = "(after Gowda and May 2020)"
    if one.frequent is None:
        return f"by the number of pairs, {pairs:,}: most pieces should be frequent enough to be learned {rule}"
    found = f"here {one.frequent:.0%}" if one.lengths is not None else "which this text does not allow"
    if one.frequent < vocabulary.SHARE:
        return f"the smallest of the sizes: too few of its pieces occur at least 100 times in the text, {found} {rule}"
    return (
        f"the largest size of which {vocabulary.SHARE:.0%} of the pieces occur at least 100 times in the text, {found} "
        f"{rule}"
    )


def _tokens_of_a_pair(one: Vocabulary) -> float:
    return float(one.lengths.mean()) if one.lengths is not None and len(one.lengths) else _TOKENS_OF_A_PAIR


def _longest(one: Vocabulary) -> int:
    if one.lengths is None or not len(one.lengths):
        return 256
    reach = float(np.quantile(one.lengths, 0.999)) * 1.25
    return int(min(_LONGEST_TOKENS, max(64, math.ceil(reach / 32) * 32)))


def _why_longest(one: Vocabulary) -> str:
    if one.lengths is None or not len(one.lengths):
        return "the default, because no text was looked at"
    return f"a quarter more than {np.quantile(one.lengths, 0.999):.0f} tokens, which one sentence in a thousand exceeds"


def _epochs(pairs: int) -> float:
    """Return how often training reads the text: from 75 times for 29,000 pairs to 18 for 4.5 million.

    These are the recipes multi30k-en-de and wmt14-en-de-base. Between them, it falls evenly on a logarithmic scale.
    """
    return float(min(120.0, max(10.0, _ANCHOR_EPOCHS * (_ANCHOR_PAIRS / max(1, pairs)) ** _FALL)))


def _batch_tokens(pairs: int, size: Size) -> tuple[int, str]:
    if pairs < 20_000:
        return 2_048, "small batches suit little text (Sennrich and Zhang 2019)"
    if pairs < 200_000 or size.name == "tiny":
        return 4_096, "as in the recipe multi30k-en-de"
    if pairs < 1_000_000 or size.name == "small":
        return 8_192, "between the recipes for 29,000 and for 4.5 million pairs"
    return 25_000, "as published (Vaswani et al. 2017)"


def _tokens_to_read(draft: _Draft, one: Vocabulary) -> float:
    return draft.pairs * _tokens_of_a_pair(one) * _epochs(draft.pairs)


def _round(number: float) -> int:
    """Return a number with two digits that count."""
    digits = max(0, int(math.log10(max(1.0, number))) - 1)
    return int(round(number / 10**digits) * 10**digits)


def _hours_of(draft: _Draft, size: Size, tokens: float, one: Vocabulary) -> float:
    return draft.machine.hours(sum(weights_per_token(size.model, one.size)), tokens)


def _size(draft: _Draft, hours: float, one: Vocabulary) -> tuple[Size, str]:
    """Return the size that fits the text, or a smaller one that this machine can train in the time, and why."""
    fitting = [size for size in SIZES if draft.pairs >= size.from_pairs]
    best, tokens = fitting[-1], _tokens_to_read(draft, one)
    possible = [size for size in fitting if _hours_of(draft, size, tokens * _SHARE_OF_UPDATES, one) <= hours]
    chosen = (possible or fitting)[-1 if possible else 0]
    why = f"for {draft.pairs:,} pairs: {chosen.reason}"
    if chosen is not best:
        needed = _hours_shown(_hours_of(draft, best, tokens, one))
        why = (
            f"the largest that this machine ({draft.machine.shown}) trains in {hours:g} hours. {draft.pairs:,} pairs "
            f"are enough for the size {best.name}, which would take about {needed} here"
        )
    names = tuple(size.name for size in SIZES)
    answer = _asked(draft, Question("model", "Size of the model", why, chosen.name, choices=names))
    if answer != chosen.name:
        chosen = next(size for size in SIZES if size.name == answer)
        why = f"chosen by hand: {chosen.reason}"
    return chosen, why


def _model_lines(size: Size, why: str, pairs: int, *, is_separate: bool) -> list[Line | None]:
    model, layers = size.model, "layers of the encoder and of the decoder, as the size says"
    return [
        Line("d_model", model.d_model, f"size {size.name}, {why}"),
        Line("d_ff", model.d_ff, "width of the inner layer, as this size has it"),
        Line("num_heads", model.num_heads, "heads of attention, as this size has them"),
        Line("encoder_layers", model.encoder_layers, layers),
        Line("decoder_layers", model.decoder_layers, "as many as the encoder has"),
        _dropout(size, pairs),
        Line("tied_embeddings", "two_way", "with two vocabularies, only target and output can share")
        if is_separate
        else None,
    ]


def _dropout(size: Size, pairs: int) -> Line:
    if pairs >= SIZES[3].from_pairs:
        return Line("dropout", 0.1, "as published. A model of this size cannot learn so much text by heart")
    return Line("dropout", max(0.3, size.model.dropout), "the less text, the more dropout, as in multi30k-en-de")


def _train_lines(draft: _Draft, size: Size, hours: float, one: Vocabulary, longest: int) -> Sequence[Line]:
    """Decide the length of training, its batches and its learning rate."""
    to_read = _tokens_to_read(draft, one)
    needed = _hours_of(draft, size, to_read, one)
    tokens, why_tokens = _batch_tokens(draft.pairs, size)
    tokens = max(tokens, longest * 2)
    planned = _round(min(_MOST_UPDATES, max(_LEAST_UPDATES, to_read / tokens)))
    updates = planned if needed <= hours else max(_LEAST_UPDATES, _round(planned * hours / needed))
    times = updates * tokens / (draft.pairs * _tokens_of_a_pair(one))
    takes = _hours_shown(_hours_of(draft, size, updates * tokens, one))
    why = f"reads the text about {counted(round(times), 'time')}, in about {takes} here" + (
        ", between multi30k-en-de (75 times) and wmt14-en-de-base (18)"
        if updates == planned
        else f". {planned:,} updates would be better, and would take about {_hours_shown(needed)}"
    )
    question = Question("train.max_updates", "Updates at most", why, str(updates), least=1, most=10_000_000)
    updates = int(_asked(draft, question))
    why_patience = "stops when the dev loss has not fallen for a quarter of the longest training. 0 never stops early"
    question = Question("train.patience", "Validations without progress", why_patience, "5", most=1_000)
    patience = int(_asked(draft, question))
    warmup = min(4_000, max(50, _round(updates / 5)))
    scale = size.peak * math.sqrt(size.model.d_model * warmup)
    every = max(20, _round(updates / 20))
    micro = min(tokens, 4_096)
    return [
        Line("max_updates", updates, why),
        Line("patience", patience, why_patience),
        *_batch_lines(draft.machine, tokens, micro, why_tokens),
        Line("warmup_updates", warmup, "a fifth of the training, and at most the 4,000 of Vaswani et al. (2017)"),
        Line(
            "learning_rate_scale",
            float(f"{scale:.2g}"),
            f"makes the highest learning rate {size.peak:g}, which suits the size {size.name}",
        ),
        Line("validate_every", every, "twenty validations in the longest training"),
        Line("checkpoint_every", every, "as often as validations, so that the best checkpoints are known"),
        Line("keep_best", 5, "the checkpoints to average"),
        Line("dev_sentences", 250, "translates and scores this many sentences at each validation"),
    ]


def _batch_lines(machine: Machine, tokens: int, micro: int, why: str) -> list[Line]:
    first = [Line("batching", "packed", "for GPUs, which then compute no padding")] if machine.gpus else []
    last = Line("micro_batch_tokens", micro, "as many as a CPU computes well at a time")
    return [
        *first,
        Line("max_tokens", tokens, f"tokens of an update: {why}"),
        *([] if machine.gpus and micro > 2_048 else [last]),
    ]


def _hours_shown(hours: float) -> str:
    if hours < 1:
        return counted(max(1, round(hours * 60)), "minute")
    return f"{hours:.1f} hours" if hours < 10 else f"{_round(hours):,} hours"


def _registry_lines(draft: _Draft) -> list[Line | None]:
    sample, target = draft.findings.sample, draft.findings.languages[1]
    spaced = sample.words_have_spaces if sample else True
    is_chrf = target not in _BLEU_LANGUAGES and (not spaced or target == "ko")
    why = (
        "BLEU counts words between spaces, which fit this language badly. chrF counts characters (Popović 2015)"
        if is_chrf
        else "the metric that decides whether a new model becomes champion"
    )
    question = Question(
        "registry.metric", "Metric of the gate", why, "chrF" if is_chrf else "BLEU", choices=("BLEU", "chrF")
    )
    metric = _asked(draft, question)
    enough = sample and all(sample.marked[kind] * draft.pairs >= 1_000 for kind in ("addresses", "placeholders"))
    reason = _why_no_worse(draft, sample)
    return [
        Line("metric", metric, why),
        None if enough and draft.pairs >= 500_000 else Line("built_in_sentences", "no_worse", reason),
    ]


def _why_no_worse(draft: _Draft, sample: Sample | None) -> str:
    if sample is None:
        return "whether the text has enough addresses and placeholders to learn to copy them is not known"
    addresses, placeholders = (_round(sample.marked[kind] * draft.pairs) for kind in ("addresses", "placeholders"))
    if not addresses and not placeholders:
        return "no sentence of the sample has an address or a placeholder, so a model cannot learn to copy them"
    return (
        f"the text has about {counted(addresses, 'sentence')} with addresses and {placeholders:,} with placeholders, "
        "too few to learn to copy all of them"
    )
