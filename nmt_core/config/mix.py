"""`mix`: how much of each training corpus is trained on."""

from pydantic import Field

from nmt_core.config.section import Section


class MixRule(Section):
    """How much of one corpus to train on, and how to mark it."""

    corpus: str = Field(min_length=1)
    """Name of a corpus of `corpus.train`."""
    weight: float = Field(1.0, ge=0)
    """How many times its text is trained on for each time that an unweighted corpus' is; 0: never."""
    max_pairs: int = Field(0, ge=0)
    """Most pairs to take, before weighting; 0: all."""
    tag: str = Field("", pattern=r"^(<[A-Za-z0-9_-]+>)?$")
    """Mark before each source sentence, such as <BT> for back-translated text (Caswell et al. 2019); empty: none."""


class MixConfig(Section):
    """Sampling of the training corpora."""

    temperature: float = Field(1.0, ge=1)
    """Corpora are trained on in proportion to pairs^(1 / temperature): 1 as they are; more evens out their sizes, large
    ones sampled down and small ones repeated, so that there are as many pairs as without."""
    corpora: tuple[MixRule, ...] = ()
    """Corpora that are weighted, capped or tagged; the others count as they are."""
    seed: int = Field(1, ge=0)
    """Seed of the draw."""
