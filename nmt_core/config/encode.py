"""`encode`: text to token ids."""

from pydantic import Field, model_validator

from nmt_core.config.section import Section


class EncodeConfig(Section):
    """Text to token ids in Parquet shards."""

    max_length: int = Field(256, ge=4, le=1_024)
    """Most tokens a side may have, its end mark included; a longer pair is dropped and counted."""
    shard_pairs: int = Field(250_000, ge=1_000)
    """Pairs in a shard, and encoded by one worker, at a time."""
    subword_sampling: float = Field(0.0, ge=0, le=1)
    """Cut training text into pieces by chance: for unigram the power to which probabilities of segmentations are raised
    (Kudo 2018, section 3.3; 0.2 is usual), for bpe the share of merges that are left out (Provilkov et al. 2020; 0.1 is
    usual); 0: into the likeliest pieces."""
    samples: int = Field(1, ge=1, le=100)
    """Segmentations of the training text; each epoch reads the next one. Shards take so many times the space."""
    seed: int = Field(1, ge=0)
    """Seed of the segmentations."""

    @model_validator(mode="after")
    def _samples_differ(self) -> "EncodeConfig":
        if self.samples > 1 and not self.subword_sampling:
            raise ValueError(f"samples={self.samples} would all be alike: set subword_sampling, as to 0.1")
        return self
