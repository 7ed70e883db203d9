"""Translate sentences of the dev set at each validation, for BLEU, chrF and samples to read."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.config import TOKEN_COLUMNS, SearchConfig, TrainConfig
from nmt_core.errors import DataError, NmtError
from nmt_core.judges.programs import statistics_of
from nmt_core.models.model import TranslationModel
from nmt_core.scoring import score
from nmt_core.search.batches import batches_by_length, most_sources
from nmt_core.search.methods import search_batch
from nmt_core.search.torch_step import TorchStepper
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.train.distributed import World

_MOST_SECONDS = 1_200.0
"""Longest time for a program that judges. The other processes wait, and give up after 30 minutes."""


@dataclass(frozen=True)
class DevText:
    """Sentences of a dev set with their reference translations."""

    sources: Sequence[str]
    references: Sequence[str]
    lines: Sequence[int]
    """Line number of each pair in the dev set, from 1."""
    source_tokens: Sequence[str] = ()
    """Piece with which each source begins, in text of many pairs of languages. Empty means none."""
    target_tokens: Sequence[str] = ()
    """Piece with which each target begins. Empty means none."""

    @classmethod
    def read(cls, folder: Path, sentences: int) -> "DevText":
        """Read evenly spaced pairs of the dev set that the stage `split` wrote, or all pairs if there are no more.

        Raises:
            DataError: the text cannot be read.
        """
        try:
            file = folder / json.loads((folder / "splits.json").read_text(encoding="utf-8"))["dev"]
            table = pq.read_table(file)
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{folder}: the dev set cannot be read ({error}): run the stage `split` again (`--force split`)"
            ) from None
        places = evenly(len(table), sentences)
        sources, references = (table[side].take(places).to_pylist() for side in ("source", "target"))
        tokens = [
            table[name].take(places).to_pylist() if name in table.column_names else ()
            for name in TOKEN_COLUMNS.values()
        ]
        return cls(sources, references, [place + 1 for place in places], *tokens)


class DevTranslator:
    """Translator of a dev text with one model after another. Every process has an instance, and translates its share.

    Args:
        text: text to translate.
        tokenizers: tokenizers of the model.
        spelling: spelling of the training text on the source side.
        target_language: language that decides how BLEU splits text into words.
        config: options of the training. `dev_beam_size`, `dev_samples` and `dev_metric` are used.
        world: the processes.
    """

    def __init__(
        self,
        text: DevText,
        tokenizers: Tokenizers,
        spelling: Spelling,
        target_language: str,
        config: TrainConfig,
        world: World,
    ) -> None:
        self._text = text
        ids = tokenizers.source.encode([spelling.tidy(line) for line in text.sources])
        first = [[tokenizers.source.id_of(piece)] for piece in text.source_tokens] or [[]] * len(ids)
        self._ids = [token + own for token, own in zip(first, ids, strict=True)]
        self._prefixes = [[tokenizers.target.id_of(piece)] for piece in text.target_tokens]
        self._tokenizer = tokenizers.target
        self._spelling = Spelling(spelling.unicode_form)
        self._target_language = target_language
        # The length limit of the search holds: a longer translation comes from a model that has not learnt to end one.
        self._search = SearchConfig(beam_size=config.dev_beam_size)
        metric = config.dev_metric
        limit = min(metric.max_seconds, _MOST_SECONDS) if metric else 0.0
        self._metric = metric.model_copy(update={"max_seconds": limit}) if metric else None
        self._samples = evenly(len(text.sources), config.dev_samples)
        self._world = world
        self._by_length = sorted(range(len(self._ids)), key=lambda place: (-len(self._ids[place]), place))

    @classmethod
    def load(cls, job: Mapping[str, Any], config: TrainConfig, world: World) -> "DevTranslator":
        """Load text and tokenizers as the job's configuration names them (`launch.py`).

        Raises:
            DataError: the text cannot be read.
            ModelError: the tokenizers cannot be read.
        """
        return cls(
            DevText.read(Path(job["text"]), config.dev_sentences),
            Tokenizers.load(Path(job["tokenizers"])),
            Spelling(*job["spelling"]),
            job["target_language"],
            config,
            world,
        )

    def scores(self, model: TranslationModel, say: Callable[[str], None]) -> dict[str, float]:
        """Translate, and return BLEU, chrF and the score by `dev_metric` as values of the curves.

        Every process calls it, and gets the same values.

        Args:
            model: model with complete weights.
            say: receives the samples.
        """
        translations = self._translate(model)
        text = self._text
        for place in self._samples:
            shown = {"source": text.sources, "reference": text.references, "translation": translations}
            say(f"line {text.lines[place]:,} of the dev set")
            for name, lines in shown.items():
                say(f"  {name:<12}{' '.join(lines[place].split())}")
        bleu, chrf = score("dev", translations, text.references, self._target_language)
        return {"dev_bleu": bleu.score, "dev_chrf": chrf.score} | self._by_metric(translations, say)

    def _by_metric(self, translations: Sequence[str], say: Callable[[str], None]) -> dict[str, float]:
        """Return the score by `train.dev_metric`, computed by the first process, or nothing if it fails."""
        if not self._metric:
            return {}
        score, problem = 0.0, ""
        if self._world.is_first:
            texts = self._text.sources, translations, self._text.references
            try:
                score = statistics_of(self._metric, *texts, self._target_language, allow_code=True).score
            except NmtError as error:
                problem = str(error)
        score, problem = self._world.agree((score, problem))
        if problem:
            say(f"{self._metric.name} of the dev set is left out of this validation: {problem}")
            return {}
        return {"dev_metric": score}

    def _translate(self, model: TranslationModel) -> list[str]:
        """Translate all sentences, shared by the processes. Each process gets a similar mix of sentence lengths."""
        rank, size = self._world.rank, self._world.size
        places = self._by_length[rank::size]
        longest = model.max_positions - self._search.max_length_offset - 1
        sources = [self._ids[place][:longest] for place in places]
        mine, stepper = [""] * len(places), TorchStepper(model)
        most = most_sources(self._search, stepper.vocab_size)
        for batch in batches_by_length(list(map(len, sources)), self._search.batch_tokens, most):
            prefixes = [self._prefixes[places[number]] for number in batch] if self._prefixes else ()
            beams = search_batch(stepper, [sources[number] for number in batch], self._search, prefixes)
            lines = self._tokenizer.decode([best.ids for best, *_ in beams])
            for number, line in zip(batch, lines, strict=True):
                mine[number] = self._spelling.tidy(line)
        model.train()
        translations = [""] * len(self._ids)
        for other, share in enumerate(self._world.gather(mine)):
            for place, line in zip(self._by_length[other::size], share, strict=True):
                translations[place] = line
        return translations


def evenly(total: int, count: int) -> list[int]:
    """Return `count` evenly spaced indices below `total`, or all: dev sets often begin with similar sentences."""
    count = min(count, total)
    return [number * total // count for number in range(count)]
