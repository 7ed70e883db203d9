"""`mix`: proportions in which the training corpora are used."""

from pydantic import Field, model_validator

from nmt_core.config.languages import Pair
from nmt_core.config.section import Section, Seed, first_repeated, later


class MixRule(Section):
    """Weight, size limit and tag of one corpus."""

    corpus: str = Field(min_length=1)
    """Name of a corpus of `corpus.train`, or of a part of `synthesis.parts` or `augmentation.parts`."""
    weight: float = Field(1.0, ge=0)
    """Number of times that the corpus is used for each time that an unweighted corpus is. 0 leaves it out."""
    max_pairs: int = Field(0, ge=0)
    """Maximum number of pairs to take, before weighting. 0 means all."""
    tag: str = Field("", pattern=r"^(<[A-Za-z0-9_-]+>)?$")
    """Tag to put before each source sentence, such as <BT> for back-translated text (Caswell et al. 2019). Empty means
    none."""


class PairRule(Section):
    """Weight and size limit of one pair of languages."""

    pair: Pair
    """Pair of `languages.pairs`."""
    weight: float = Field(1.0, ge=0)
    """Number of times that the pair is used for each time that an unweighted pair is. 0 leaves it out."""
    max_pairs: int = Field(0, ge=0)
    """Maximum number of sentence pairs to take, before weighting. 0 means all."""


class MixConfig(Section):
    """Sampling of the training corpora."""

    temperature: float = Field(1.0, ge=1)
    """Sampling temperature: the share of a corpus is proportional to pairs^(1 / temperature). 1 leaves the sizes as
    they are. Higher values even them out, by sampling large corpora down and repeating small ones. The total number of
    pairs stays the same. With `languages.pairs`, pairs of languages are evened out in place of corpora (Arivazhagan et
    al. 2019, section 4), and 5 is usual."""
    corpora: tuple[MixRule, ...] = ()
    """Corpora that are weighted, limited in size or tagged. All others have weight 1 and no tag."""
    pairs: tuple[PairRule, ...] = later(())
    """Pairs of languages that are weighted or limited in size, in addition to the rules for corpora. All others have
    weight 1."""
    seed: Seed = 1
    """Random seed of the sampling."""

    @model_validator(mode="after")
    def _names_each_pair_once(self) -> "MixConfig":
        if twice := first_repeated(rule.pair for rule in self.pairs):
            raise ValueError(f"pairs has {twice} twice: remove one of the two")
        return self
