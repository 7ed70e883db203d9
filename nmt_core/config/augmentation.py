"""`augmentation`: rough and marked copies of training text."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from nmt_core.config.languages import Pair
from nmt_core.config.section import Section, Seed, first_repeated, later

Change = Literal[
    "upper_case",
    "title_case",
    "lower_case",
    "typos",
    "ocr",
    "punctuation",
    "spaces",
    "no_diacritics",
    "emoji",
    "numbers",
    "placeholders",
    "tags",
    "merge",
    "split",
]
"""Change of a pair. `docs/how-to/rough-input.md` shows an example of each."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class AugmentedPart(Section):
    """Corpus of changed copies of training pairs."""

    name: str = Field(pattern="^[A-Za-z0-9._-]+$")
    """Name of the corpus that the part becomes, used in `mix`, in `train.curriculum`, in reports and in the training
    text."""
    changes: Annotated[tuple[Change, ...], BeforeValidator(_as_list)] = Field(min_length=1)
    """Changes of a pair, one after the other. `upper_case`, `title_case`: both sides. `lower_case`, `typos` (by the
    keyboard of the language), `ocr`, `punctuation` (missing or doubled marks), `spaces` (missing or misplaced),
    `no_diacritics`: only the source.
    `emoji`, `numbers`, `placeholders`, `tags`: the same on both sides, where they belong together. `merge`: several
    pairs become one. `split`: one sentence of several."""
    corpora: tuple[str, ...] = ()
    """Names of the corpora whose pairs are copied. Empty means all of the training text."""
    pairs: Annotated[tuple[Pair, ...], BeforeValidator(_as_list)] = later(())
    """Pairs of languages whose text is copied, of those in `languages.pairs`. Empty means all."""
    share: float = Field(0.1, gt=0, le=1)
    """Share of the pairs that are copied and changed, drawn at random. `mix.corpora` can repeat them."""
    strength: float = Field(1.0, gt=0, le=10)
    """Factor of the usual number of changes in a sentence, for `typos`, `ocr`, `punctuation` and `spaces`."""

    @model_validator(mode="after")
    def _changes_once(self) -> "AugmentedPart":
        cases = [change for change in self.changes if change in CASES]
        if len(cases) > 1:
            raise ValueError(
                f"changes has {cases[0]} and {cases[1]}, and a sentence has one case: make two parts of it"
            )
        if twice := first_repeated(self.pairs):
            raise ValueError(f"pairs has {twice} twice: remove one")
        return self


CASES: tuple[Change, ...] = get_args(Change)[:3]
"""Changes of which a sentence can have one."""


class AugmentationConfig(Section):
    """Rough and marked copies of the training text, in addition to it, so that a model learns rough input."""

    parts: tuple[AugmentedPart, ...] = ()
    """Corpora of changed copies to make. Empty means that a run has no stage `augment`. `mix.corpora` sets weights,
    size limits and tags, by the name of the part, and `train.curriculum` decides in which phases they are used.
    `mix.temperature` does not apply to them."""
    seed: Seed = 1
    """Random seed of the choice of pairs and of their changes."""
