"""`split`: dev and test text taken out of the training text."""

from pydantic import Field

from nmt_core.config.section import Section


class SplitConfig(Section):
    """Dev and test text taken out of the training text, where the recipe names none."""

    dev_pairs: int = Field(1_000, ge=1)
    """Pairs to hold out for validation, if `corpus.dev` is empty; from corpora that `mix` does not tag or leave out."""
    test_pairs: int = Field(1_000, ge=1)
    """Pairs to hold out for scoring, if `corpus.test` is empty; from the same corpora."""
    seed: int = Field(1, ge=0)
    """Seed of the draw."""
