"""`tokenizer`: pieces into which text is cut."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt_core.config.section import Section, Seed, later

Pretokenizing = Literal["none", "moses", "morphemes", "kiwi", "case_marks"]
"""Method that cuts text before SentencePiece does."""
Pieces = Literal["bpe", "unigram", "char", "word"]
"""Kind of the pieces in a vocabulary."""


_PAIRS = 5_000_000
# For 657,674 pairs a unigram model took 97 s and 1.7 GB, where byte-pair encoding took 8 s and 0.5 GB.
_UNIGRAM_PAIRS = 1_000_000


class TokenizerConfig(Section):
    """SentencePiece: one model for both languages, or one for each."""

    start_from: str = ""
    """Vocabulary to reuse instead of learning one: from a registered model (`models:/NAME@ALIAS` or
    `models:/NAME/VERSION`), an artifact (`tokenizer/FINGERPRINT`), or a folder, such as a bundle. Of other programs, a
    SentencePiece model, `tokenizer.json` of Hugging Face if SentencePiece can compute it exactly, or a folder with
    such files. The other options of `tokenizer` then have no effect, except `user_symbols`, which the vocabulary must
    contain, `sample_pairs`, `seed`, `added_pieces` and, for these, `character_coverage`. Empty means that a vocabulary
    is learned."""
    added_pieces: dict[str, Annotated[int, Field(ge=0, le=256_000)]] = later({})
    """Languages of `languages.pairs` that the vocabulary of `start_from` was learned without, each with the maximum
    number of pieces that are learned from its text and appended, such as {cs: 1000}. The older pieces keep their ids,
    and missing tokens of target languages are appended too. 0 appends the token alone. Empty means that the vocabulary
    stays as it is."""
    kind: Pieces = "bpe"
    """Kind of the pieces: byte-pair encoding, a unigram model, single characters, or the most frequent words (all
    others become <unk>)."""
    target_kind: Literal["same", "bpe", "unigram", "char", "word"] = "same"
    """Kind of the pieces in a separate target vocabulary. `same` means the value of `kind`."""
    pretokenize_source: Pretokenizing = "none"
    """Tool that cuts source text before SentencePiece. `moses`: Moses' rules for words and punctuation, which are
    undone in the output. `morphemes` and `kiwi`: Korean morphemes by mecab-ko or by Kiwi, whose boundaries no piece
    crosses and which leave no trace in the output. `case_marks`: small letters, with marks for capitals, which the
    output has again as capitals. sacreBLEU's `ko-mecab` needs mecab-ko as well, and the dictionary of
    python-mecab-ko cannot be installed beside it."""
    pretokenize_target: Pretokenizing = "none"
    """Tool that cuts target text before SentencePiece. The values mean the same as in `pretokenize_source`."""
    vocabularies: Literal["joint", "separate"] = "joint"
    """One vocabulary for both languages, or one of `vocab_size` pieces for each."""
    vocab_size: int = Field(8_000, ge=64, le=256_000)
    """Number of pieces in a vocabulary, including the four special ones. For `char` and `word`, this is a maximum."""
    target_vocab_size: int = Field(0, ge=0, le=256_000)
    """Number of pieces in a separate target vocabulary. 0 means the value of `vocab_size`."""
    character_coverage: float = Field(1.0, ge=0.9, le=1.0)
    """Share of the text's characters that get a piece of their own. 0.9995 suits large Korean, Japanese and Chinese
    text."""
    byte_fallback: bool = False
    """Spell unknown characters as bytes instead of <unk>."""
    split_digits: bool = False
    """Make each digit a piece of its own."""
    user_symbols: tuple[Annotated[str, Field(pattern=r"^\S+$")], ...] = ()
    """Pieces that are never cut, such as placeholder marks. The tags of `mix` are added automatically."""
    sample_pairs: int = Field(0, ge=0)
    """Maximum number of pairs to learn from. Larger text is sampled down. 0 means five million, or one million for a
    unigram model, which begins with a suffix array over the whole sample."""
    seed: Seed = 1
    """Random seed of the sample."""

    @model_validator(mode="after")
    def _fits_together(self) -> "TokenizerConfig":
        if self.added_pieces and not self.start_from:
            raise ValueError(
                f"added_pieces names {next(iter(self.added_pieces))}, but there is no vocabulary to extend: set "
                "start_from to the vocabulary of a model, or remove added_pieces"
            )
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
                    f"pretokenize_{side}={cut} cuts words, but a vocabulary of words needs whole ones: set its kind to "
                    f"bpe or unigram, or pretokenize_{side} to moses or none"
                )
        if self.split_digits and "word" in self.kinds:
            raise ValueError("split_digits cuts words, but a vocabulary of words needs whole ones: leave it off")
        return self

    @property
    def pairs_to_sample(self) -> int:
        """Value of `sample_pairs`, or its default for the kind of pieces."""
        is_slow = "unigram" in self.kinds and not self.start_from
        return self.sample_pairs or (_UNIGRAM_PAIRS if is_slow else _PAIRS)

    @property
    def kinds(self) -> tuple[Pieces, Pieces]:
        """Kinds of the source and target pieces."""
        return self.kind, self.kind if self.target_kind == "same" else self.target_kind
