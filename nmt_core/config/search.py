"""`search`: how translations are found."""

from typing import Literal

from pydantic import Field, model_validator

from nmt_core.config.section import Section


class SearchConfig(Section):
    """How translations are found: by beam search, or by sampling."""

    method: Literal["beam", "sample"] = "beam"
    """beam: the likeliest translation, as far as a beam finds it; sample: one that is drawn by chance, as for
    back-translation."""
    beam_size: int = Field(4, ge=1, le=64)
    """Hypotheses that are kept at each step; 1 is greedy search."""
    n_best: int = Field(1, ge=1, le=64)
    """Translations of each line, with their scores: the best of a beam, or as many samples."""
    length_penalty: float = Field(0.6, ge=0, le=10)
    """Alpha of the length penalty ((5 + length) / 6)^alpha (Wu et al. 2016, section 7)."""
    max_length_factor: float = Field(1.0, ge=0, le=100)
    """Most target tokens: those of the source times this, plus `max_length_offset`, plus those of a prefix."""
    max_length_offset: int = Field(50, ge=1)
    """See `max_length_factor` (Vaswani et al. 2017, section 6.1: 1 and 50)."""
    min_length: int = Field(0, ge=0)
    """Fewest target tokens."""
    allow_unknown: bool = True
    """Whether a translation may hold <unk>; if not, the next likeliest piece takes its place."""
    source_prefix: str = ""
    """Text whose tokens come before those of each source, as the tag of a language: <2de>."""
    target_prefix: str = ""
    """Text with whose tokens every translation begins. They count nothing in its score."""
    temperature: float = Field(1.0, ge=1e-6, le=100)
    """Of sampling: log-probabilities are divided by it. Less than 1 makes the likely more likely; with the least, the
    likeliest token is drawn."""
    top_k: int = Field(0, ge=0)
    """Of sampling: only this many of the likeliest tokens may be drawn; 0: all may."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Of sampling: only the likeliest tokens that together have this probability may be drawn, after `temperature` and
    `top_k`."""
    seed: int = Field(1, ge=0)
    """Of sampling. A line's sample depends on this and on its text alone; the same lines get the same."""
    max_source_tokens: int = Field(1_024, ge=4)
    """Source tokens that a model reads at a time."""
    long_lines: Literal["split", "cut"] = "split"
    """What becomes of a line with more tokens: its sentences are translated one by one, or its end is left out. The
    line's status says which."""
    batch_tokens: int = Field(2_048, ge=16)
    """Source tokens translated together, padding included."""
    precision: Literal["fastest", "fp32", "int8", "fp16"] = "fastest"
    """Which of the model's graphs to use; fastest: int8 on a CPU and fp16 on a GPU, or fp32 if the model lacks them."""
    shortlist: bool = False
    """Choose from the model's shortlist alone: the most frequent target pieces and likely translations of the source's.
    Faster with a large vocabulary; scores are log-probabilities among those. The model needs `export.shortlist`."""
    alignments: Literal["none", "words", "pieces"] = "none"
    """Whether to say what belongs together in a line and its translation, by the model's attention: words between white
    space, or pieces of the vocabulary. It takes more time, and the memory of the graphs in fp32."""

    @property
    def most_positions(self) -> int:
        """Positions that the longest source and its longest translation take, a mark at its start or end included."""
        longest_target = int(self.max_length_factor * self.max_source_tokens) + self.max_length_offset
        return max(self.max_source_tokens, longest_target) + 1

    @model_validator(mode="after")
    def _fits_together(self) -> "SearchConfig":
        if self.method == "beam" and self.n_best > self.beam_size:
            raise ValueError(f"n_best={self.n_best} is more than beam_size={self.beam_size}: raise beam_size")
        if self.min_length > self.max_length_offset:
            raise ValueError(
                f"min_length={self.min_length} is more than max_length_offset={self.max_length_offset}, which is all "
                "that a short line may have: raise max_length_offset"
            )
        return self
