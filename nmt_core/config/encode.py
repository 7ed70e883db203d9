"""`encode`: conversion of text to token ids."""

from pydantic import Field, model_validator

from nmt_core.config.section import Section, Seed, later


class EncodeConfig(Section):
    """Conversion of text to token ids in Parquet shards."""

    max_length: int = Field(256, ge=4, le=1_024)
    """Maximum number of tokens on each side, including the end mark. Longer pairs are dropped and counted."""
    shard_pairs: int = Field(250_000, ge=1_000)
    """Number of pairs in a shard, which one worker encodes at a time."""
    subword_sampling: float = Field(0.0, ge=0, le=1)
    """Randomness of the segmentation of the training text. For unigram, it is the power to which the probabilities of
    segmentations are raised (Kudo 2018, section 3.3), usually 0.2. For bpe, it is the share of merges that are left out
    (Provilkov et al. 2020), usually 0.1. 0 always gives the likeliest segmentation."""
    samples: int = Field(1, ge=1, le=100)
    """Number of segmentations of the training text, used in turn by successive epochs. The shards take this many times
    the space."""
    seed: Seed = 1
    """Random seed of the segmentations."""
    alignments: bool = later(False)
    """Align the pieces of each pair by statistics of the training text (IBM model 2 in both directions, Dyer et al.
    2013), for `model.alignment_layer`."""

    @model_validator(mode="after")
    def _aligns_one_segmentation(self) -> "EncodeConfig":
        if self.alignments and self.subword_sampling:
            raise ValueError(
                f"alignments=true needs one segmentation of each text, but subword_sampling={self.subword_sampling} "
                "makes others: set subword_sampling to 0"
            )
        return self

    @model_validator(mode="after")
    def _samples_differ(self) -> "EncodeConfig":
        if self.samples > 1 and not self.subword_sampling:
            raise ValueError(f"samples={self.samples} would all be the same: set subword_sampling, for example to 0.1")
        return self
