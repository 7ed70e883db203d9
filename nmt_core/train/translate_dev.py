"""Translating sentences of the dev set at each validation: BLEU and chrF to judge a model by, and samples to read."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nmt_core.config import SearchConfig, TrainConfig
from nmt_core.errors import DataError
from nmt_core.models.model import TranslationModel
from nmt_core.scoring import score
from nmt_core.search.batches import batches_by_length, most_sources
from nmt_core.search.methods import search_batch
from nmt_core.search.torch_step import TorchStepper
from nmt_core.spelling import Spelling
from nmt_core.tokenizer.tokenizer import Tokenizers
from nmt_core.train.distributed import World


@dataclass(frozen=True)
class DevText:
    """Sentences of a dev set, and what they should be translated into."""

    sources: Sequence[str]
    references: Sequence[str]
    lines: Sequence[int]
    """Where in the dev set each pair stands, from 1."""

    @classmethod
    def read(cls, folder: Path, sentences: int) -> "DevText":
        """Pairs at even distances of what the stage `split` wrote; all, if there are no more than that.

        Raises:
            DataError: the text cannot be read.
        """
        try:
            file = folder / json.loads((folder / "splits.json").read_text(encoding="utf-8"))["dev"]
            table = pq.read_table(file, columns=["source", "target"])
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{folder}: the dev set cannot be read ({error}): run the stage `split` again (`--force split`)"
            ) from None
        places = evenly(len(table), sentences)
        sources, references = (table[side].take(places).to_pylist() for side in ("source", "target"))
        return cls(sources, references, [place + 1 for place in places])


class DevTranslator:
    """Translates a dev text with one model after another. Every process has one, and translates its share.

    Args:
        text: what to translate.
        tokenizers: those of the model.
        spelling: how the training text of the source side is spelt.
        target_language: decides how BLEU cuts text into words.
        config: `dev_beam_size` and `dev_samples`.
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
        self._ids = tokenizers.source.encode([spelling.tidy(line) for line in text.sources])
        self._tokenizer = tokenizers.target
        self._spelling = Spelling(spelling.unicode_form)
        self._target_language = target_language
        # Longer targets than that are those of a model that has not learnt to end them.
        self._search = SearchConfig(beam_size=config.dev_beam_size)
        self._samples = evenly(len(text.sources), config.dev_samples)
        self._world = world
        self._by_length = sorted(range(len(self._ids)), key=lambda place: (-len(self._ids[place]), place))

    @classmethod
    def load(cls, job: Mapping[str, Any], config: TrainConfig, world: World) -> "DevTranslator":
        """By what the stage says of text and tokenizers (`launch.py`).

        Raises:
            DataError: the text cannot be read.
            ModelError: the tokenizers cannot.
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
        """Translate; BLEU and chrF as points of curves. Called by every process, and the same in each.

        Args:
            model: with whole weights.
            say: is told the samples.
        """
        translations = self._translate(model)
        text = self._text
        for place in self._samples:
            shown = {"source": text.sources, "reference": text.references, "translation": translations}
            say(f"line {text.lines[place]:,} of the dev set")
            for name, lines in shown.items():
                say(f"  {name:<12}{' '.join(lines[place].split())}")
        bleu, chrf = score("dev", translations, text.references, self._target_language)
        return {"dev_bleu": bleu.score, "dev_chrf": chrf.score}

    def _translate(self, model: TranslationModel) -> list[str]:
        """Each sentence's translation. Sentences of like length are dealt out, so that all processes have as much."""
        rank, size = self._world.rank, self._world.size
        places = self._by_length[rank::size]
        longest = model.max_positions - self._search.max_length_offset - 1
        sources = [self._ids[place][:longest] for place in places]
        mine, stepper = [""] * len(places), TorchStepper(model)
        most = most_sources(self._search, stepper.vocab_size)
        for batch in batches_by_length(list(map(len, sources)), self._search.batch_tokens, most):
            found = search_batch(stepper, [sources[number] for number in batch], self._search)
            lines = self._tokenizer.decode([best.ids for best, *_ in found])
            for number, line in zip(batch, lines, strict=True):
                mine[number] = self._spelling.tidy(line)
        model.train()
        translations = [""] * len(self._ids)
        for other, share in enumerate(self._world.gather(mine)):
            for place, line in zip(self._by_length[other::size], share, strict=True):
                translations[place] = line
        return translations


def evenly(total: int, count: int) -> list[int]:
    """So many places of a text, or all: a dev set often begins with a run of similar sentences."""
    count = min(count, total)
    return [number * total // count for number in range(count)]
