"""`tokenizer`: the pieces that text is cut into."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt_core.config.section import Section

Pretokenizing = Literal["none", "moses", "morphemes", "kiwi"]
"""What cuts text before SentencePiece does."""
Pieces = Literal["bpe", "unigram", "char", "word"]
"""What pieces of text have an id."""


_PAIRS = 5_000_000
# For 657,674 pairs a unigram model took 97 s and 1.7 GB, where byte-pair encoding took 8 s and 0.5 GB.
_UNIGRAM_PAIRS = 1_000_000


class TokenizerConfig(Section):
    """SentencePiece: one model for both languages, or one for each."""

    start_from: str = ""
    """Take over a vocabulary in place of learning one: that of a registered model (`models:/NAME@ALIAS` or
    `models:/NAME/VERSION`), of an artifact (`tokenizer/FINGERPRINT`), or in a folder, such as a bundle. Of the knobs
    below, only `user_symbols`, which it must hold, `sample_pairs` and `seed` then count."""
    kind: Pieces = "bpe"
    """What the pieces are: of byte-pair encoding, of a unigram model, single characters, or the most frequent words, of
    which all others are <unk>."""
    target_kind: Literal["same", "bpe", "unigram", "char", "word"] = "same"
    """The same for a vocabulary of the target alone; same: as `kind`."""
    pretokenize_source: Pretokenizing = "none"
    """What cuts source text before: nothing; Moses' rules for words and punctuation, whose work is undone by rules;
    Korean morphemes by mecab-ko (which sacreBLEU's `ko-mecab` needs as well, and beside which the dictionary of
    python-mecab-ko cannot be installed) or by Kiwi, which no piece then reaches over and which leave no trace."""
    pretokenize_target: Pretokenizing = "none"
    """The same for the target side."""
    vocabularies: Literal["joint", "separate"] = "joint"
    """One vocabulary for both languages, or one of `vocab_size` pieces for each."""
    vocab_size: int = Field(8_000, ge=64, le=256_000)
    """Pieces in a vocabulary, the four special ones included; with `char` and `word` at most so many."""
    target_vocab_size: int = Field(0, ge=0, le=256_000)
    """The same for a vocabulary of the target alone; 0: as `vocab_size`."""
    character_coverage: float = Field(1.0, ge=0.9, le=1.0)
    """Share of the characters that get a piece of their own (0.9995 for Korean, Japanese and Chinese at size)."""
    byte_fallback: bool = False
    """Spell unknown characters as bytes in place of <unk>."""
    split_digits: bool = False
    """Make each digit a piece of its own."""
    user_symbols: tuple[Annotated[str, Field(pattern=r"^\S+$")], ...] = ()
    """Pieces that are never cut, such as the mark of a placeholder; the tags of `mix` are added by themselves."""
    sample_pairs: int = Field(0, ge=0)
    """Pairs to learn from; more are sampled down. 0: five million, or one million for a unigram model, which begins
    with a suffix array over all of them."""
    seed: int = Field(1, ge=0)
    """Seed of the sample."""

    @model_validator(mode="after")
    def _fits_together(self) -> "TokenizerConfig":
        if self.vocabularies == "joint" and (self.target_kind != "same" or self.target_vocab_size):
            raise ValueError(
                "target_kind and target_vocab_size are for a vocabulary of the target alone: set vocabularies=separate"
            )
        if 0 < self.target_vocab_size < 64:
            raise ValueError(f"target_vocab_size={self.target_vocab_size} is less than 64: set it to 0, or higher")
        if 0 < self.sample_pairs < 1_000:
            raise ValueError(f"sample_pairs={self.sample_pairs} is less than 1,000: set it to 0, or higher")
        return self

    @model_validator(mode="after")
    def _leaves_words_whole(self) -> "TokenizerConfig":
        if self.start_from:
            return self
        for side, kind in zip(("source", "target"), self.kinds, strict=True):
            cut = getattr(self, f"pretokenize_{side}")
            if kind == "word" and cut in ("morphemes", "kiwi"):
                raise ValueError(
                    f"pretokenize_{side}={cut} cuts words, which a vocabulary of words keeps whole: set its kind to "
                    f"bpe or unigram, or pretokenize_{side} to moses or none"
                )
        if self.split_digits and "word" in self.kinds:
            raise ValueError("split_digits cuts words, which a vocabulary of words keeps whole: leave it off")
        return self

    @property
    def pairs_to_sample(self) -> int:
        """`sample_pairs`, or what it is where the recipe does not say."""
        is_slow = "unigram" in self.kinds and not self.start_from
        return self.sample_pairs or (_UNIGRAM_PAIRS if is_slow else _PAIRS)

    @property
    def kinds(self) -> tuple[Pieces, Pieces]:
        """What the pieces of source and target are."""
        return self.kind, self.kind if self.target_kind == "same" else self.target_kind
