"""`mix`: proportions in which the training corpora are used."""

from pydantic import Field

from nmt_core.config.section import Section, Seed


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


class MixConfig(Section):
    """Sampling of the training corpora."""

    temperature: float = Field(1.0, ge=1)
    """Sampling temperature: the share of a corpus is proportional to pairs^(1 / temperature). 1 leaves the sizes as
    they are. Higher values even them out, by sampling large corpora down and repeating small ones. The total number of
    pairs stays the same."""
    corpora: tuple[MixRule, ...] = ()
    """Corpora that are weighted, limited in size or tagged. All others have weight 1 and no tag."""
    seed: Seed = 1
    """Random seed of the sampling."""
