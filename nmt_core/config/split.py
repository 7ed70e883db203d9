"""`split`: dev and test text taken out of the training text."""

from pydantic import Field

from nmt_core.config.section import Section, Seed


class SplitConfig(Section):
    """Dev and test text taken out of the training text, if the recipe names none."""

    dev_pairs: int = Field(1_000, ge=1)
    """Number of pairs to hold out for validation if `corpus.dev` is empty, from corpora that `mix` neither tags nor
    leaves out."""
    test_pairs: int = Field(1_000, ge=1)
    """Number of pairs to hold out for scoring if `corpus.test` is empty, from corpora that `mix` neither tags nor
    leaves out."""
    seed: Seed = 1
    """Random seed of the choice."""
