"""`synthesis`: training text that models make from other text."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from nmt_core.config.languages import Side
from nmt_core.config.search import Fault, SearchConfig
from nmt_core.config.section import Section, first_repeated, later

MadeFrom = Literal["target_monolingual", "source_monolingual", "parallel_source"]
"""Text that a teacher translates."""

Rejected = Literal["empty", "cut", "unfinished", "prefix_unknown", "unknown", "no_language", Fault]
"""Status of a translation that tells of a fault. The statuses are the same as in the output of `nmt translate`."""


REVERSE = "reverse"
"""Name of the teacher that is the newest model of the other direction, or for many pairs, in a run with `rounds`."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class SyntheticPart(Section):
    """Synthetic corpus: text with its translations by one or several teachers."""

    name: str = Field(pattern="^[A-Za-z0-9._-]+$")
    """Name of the corpus that the part becomes, used in `mix`, in reports and in the training text."""
    text: MadeFrom
    """Text to translate. `target_monolingual`: monolingual text of the target language, whose translations become the
    source side (back-translation, Sennrich et al. 2016, "Improving Neural Machine Translation Models with Monolingual
    Data", section 3). `source_monolingual`: monolingual text of the source language, whose translations become the
    target side (forward translation; self-training if the teacher is an earlier version of the model).
    `parallel_source`: the source side of the parallel training text (sequence-level knowledge distillation, Kim and
    Rush 2016, section 3.2)."""
    pair: str = later("", pattern="^([A-Za-z_0-9]+-[A-Za-z_0-9]+)?$")
    """Pair of `languages.pairs` for which the part is training text, such as en-de. Empty means the recipe's only
    pair."""
    corpora: tuple[str, ...] = later(())
    """Names of the corpora of `corpus.monolingual`, or of `corpus.train`, to take. Empty means all of the language."""
    teachers: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = Field(min_length=1)
    """Models that translate: models:/NAME@ALIAS, models:/NAME/VERSION, export/FINGERPRINT, or the folder of a bundle.
    Of several models, each translates an equal share of the sentences, chosen by the hash of the sentence. A model for
    many pairs of languages translates in the pair that is needed. `reverse` is the newest model of the other direction,
    or the last round's model for many pairs, in a run with `rounds`."""
    search: SearchConfig = SearchConfig()
    """Search of the teachers."""
    choose: Literal["first", "bleu", "chrf"] = "first"
    """Choice among the `search.n_best` translations of a sentence. `first`: the best one by the model. `bleu` and
    `chrf`: the one that is most similar to the reference, by BLEU or chrF of the sentence (sequence-level
    interpolation, Kim and Rush 2016, section 3.3), which needs `text: parallel_source`."""
    drop: tuple[Rejected, ...] = get_args(Rejected)
    """Faults for which a translation is dropped."""
    most_sentences: int = Field(0, ge=0)
    """Maximum number of sentences to translate, drawn at random. 0 means all."""

    @property
    def side(self) -> Side:
        """Side of the text that the teachers translate."""
        return "target" if self.text == "target_monolingual" else "source"

    @model_validator(mode="after")
    def _can_choose(self) -> "SyntheticPart":
        if self.choose != "first" and self.text != "parallel_source":
            raise ValueError(
                f"choose={self.choose} compares with references, which {self.text} lacks: set text to parallel_source, "
                "or choose to first"
            )
        if self.choose != "first" and self.search.n_best == 1:
            raise ValueError(
                f"choose={self.choose} has one translation to choose from: set search.n_best, for example to "
                f"{max(4, self.search.beam_size)}"
            )
        if self.search.rerank == "judge":
            raise ValueError(
                "search.rerank=judge chooses translations of models in use, not of teachers: set search.rerank to mbr "
                "or none, and judge the synthetic text in clean.scores"
            )
        if REVERSE in self.teachers and (len(self.teachers) > 1 or self.text != "target_monolingual"):
            raise ValueError(
                f"the teacher {REVERSE} translates alone, and from the target language: remove the other teachers, and "
                "set text to target_monolingual"
            )
        if twice := first_repeated(self.teachers):
            raise ValueError(f"teachers has {twice} twice: remove one")
        return self


class SynthesisConfig(Section):
    """Training text that models make from other text, in addition to the parallel text."""

    parts: tuple[SyntheticPart, ...] = later(())
    """Synthetic corpora to make. Empty means that a run has no stage `synthesise`. `mix.corpora` sets weights, size
    limits and tags, by the name of the part. `mix.temperature` does not apply to them."""
    train_on_parallel: bool = later(True)
    """Train on the parallel text too. False trains on the synthetic corpora alone, as for a student that learns only
    from its teacher. Dev and test text is the same."""

    @model_validator(mode="after")
    def _has_something_to_train_on(self) -> "SynthesisConfig":
        if not self.parts and not self.train_on_parallel:
            raise ValueError("train_on_parallel=false leaves no text to train on: name synthesis.parts, or remove it")
        return self
