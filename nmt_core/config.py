"""Every knob of the pipeline, once: its default, its bounds and its meaning.

The same object is the YAML recipe, the form in the Prefect UI, the input of every stage, what `torchrun` receives and
what MLflow logs. Paths of this machine, addresses of servers and secrets are settings (`flows/settings.py`), never
configuration. This module imports neither torch nor anything else that is slow.
"""

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator

from nmt_core.codes import canonical

Sha256 = Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]
Share = Annotated[float, Field(ge=0, le=1)]


def _is_one_line(text: str) -> str:
    if not text.strip() or "\n" in text or "\r" in text:
        raise ValueError("must be one line of text that is not blank")
    return text


Sentence = Annotated[str, AfterValidator(_is_one_line)]


def _is_shortest_code(codes: str) -> str:
    """Tables of languages go by the shortest code: under another one, filters would find nothing to check."""
    for code in filter(None, codes.split("-")):
        if canonical(code) != code:
            raise ValueError(f"{code!r} is not the shortest ISO 639 code of this language: write {canonical(code)!r}")
    return codes


Language = Annotated[str, Field(pattern="^[a-z]{2,3}$"), AfterValidator(_is_shortest_code)]


def _shape_forms(schema: dict[str, Any]) -> None:
    """Number the fields and tell their bounds.

    Prefect on PostgreSQL shows nested fields in the order of `position` and of nothing else, and on either database it
    checks bounds without showing them.
    """
    for position, field in enumerate(schema.get("properties", {}).values()):
        field["position"] = position
        if bounds := _bounds(field):
            field["description"] = f"{field['description']} Allowed: {bounds}."


def _bounds(field: dict[str, Any]) -> str:
    """What a number may be, in words."""
    words = {"minimum": "{} or more", "exclusiveMinimum": "more than {}"}
    words |= {"maximum": "{} or less", "exclusiveMaximum": "less than {}"}
    return ", ".join(text.format(f"{field[key]:,}") for key, text in words.items() if key in field)


class Section(BaseModel):
    """A frozen group of knobs. Unknown keys are errors; nothing adjusts a value silently."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        json_schema_extra=_shape_forms,
    )


class LanguagesConfig(Section):
    """What is translated into what."""

    source: Language = "en"
    """Language of the source text, by its shortest ISO 639 code: en, and not eng."""
    target: Language = "ko"
    """Language of the target text, by its shortest ISO 639 code: ko, and not kor."""


class ToyCorpusConfig(Section):
    """A toy English-Korean corpus that the package makes itself from a small grammar; it needs no network."""

    pairs: int = Field(30_000, ge=1_000, le=200_000)
    """Sentence pairs in the training text, planted dirt included."""
    held_out: int = Field(500, ge=10, le=5_000)
    """Sentence pairs of the dev set, and again of the test set; training never sees one of them."""
    seed: int = Field(1, ge=0)
    """Seed of the draw."""

    @model_validator(mode="after")
    def _leaves_text_to_train_on(self) -> "ToyCorpusConfig":
        if self.held_out > self.pairs // 2:
            raise ValueError(f"held_out={self.held_out} is more than half of pairs={self.pairs}: set it lower")
        return self


class ParallelCorpus(Section):
    """One parallel corpus: one address, or two files of which line N of one translates line N of the other.

    A recipe may give the address alone, as in `- opus:Tatoeba/v2023-04-12`; the name is then made from it.
    """

    name: str = Field(pattern="^[A-Za-z0-9._-]+$")
    """Short name of the corpus, used in reports, in `mix` and in the score's name."""
    address: str = ""
    """Where both sides are: opus:NAME/VERSION (or opus:NAME/VERSION/en-pt_BR), mtdata:ID, sacrebleu:SET/PAIR,
    hf:ORG/NAME@REVISION, an https:, s3:, gs: or file: address, a path, a folder, or a pattern with * in it."""
    source: str = ""
    """Address of the source side, where it is a file of its own."""
    target: str = ""
    """Address of the target side, where it is a file of its own."""
    sha256: Sha256 = ""
    """Expected sha256 of the file at `address`, if that is one file; empty: not checked."""
    source_sha256: Sha256 = ""
    """Expected sha256 of the source file as downloaded; empty: not checked."""
    target_sha256: Sha256 = ""
    """Expected sha256 of the target file as downloaded; empty: not checked."""
    member: str = ""
    """Pattern of the members to read, such as *.tsv or de-en/*, where an address is that of a zip or tar archive;
    empty: the one that holds the text, or the one for each language."""
    source_column: str = ""
    """Name, or number from 1, of a table's source column (TSV, CSV, JSONL, Parquet); empty: the language's, else 1."""
    target_column: str = ""
    """Name, or number from 1, of a table's target column; empty: the language's, else 2."""
    licence: str = ""
    """Licence of the text; empty: what is known of the address, else `corpus.licence`. It decides no text, so that a
    correction retrains nothing: the model card says what the recipe says now, while `corpora.json` and the column
    `licence` of the shards say what it said when they were made."""
    citation: str = ""
    """Publication to cite; empty: what is known of the address. As of `licence`, the card shows what it says now."""

    @model_validator(mode="before")
    @classmethod
    def _take_an_address_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"address": value}
        if isinstance(value, dict) and not value.get("name") and value.get("address"):
            return value | {"name": re.sub(r"[^A-Za-z0-9._]+", "-", str(value["address"])).strip("-.")}
        return value

    @model_validator(mode="after")
    def _says_where_it_is(self) -> "ParallelCorpus":
        if bool(self.address) == bool(self.source or self.target) or bool(self.source) != bool(self.target):
            raise ValueError("needs either `address`, or both `source` and `target`: set one or the other")
        if self.address and (self.source_sha256 or self.target_sha256):
            raise ValueError("has an `address`: give its hash as `sha256`")
        if self.source and self.sha256:
            raise ValueError("has two files: give their hashes as `source_sha256` and `target_sha256`")
        if any(urlsplit(address).password for address in (self.address, self.source, self.target)):
            raise ValueError("has a password in its address, where all who see the recipe read it: move it to ~/.netrc")
        return self


class CorpusConfig(Section):
    """Where the text comes from."""

    toy: ToyCorpusConfig | None = None
    """Make the toy corpus: it serves as training, dev and test text."""
    train: tuple[ParallelCorpus, ...] = ()
    """Parallel text to train on."""
    dev: tuple[ParallelCorpus, ...] = ()
    """Parallel text to validate on during training; empty: `split` takes it out of the training text."""
    test: tuple[ParallelCorpus, ...] = ()
    """Parallel text to score on, the first being the main one; empty: `split` takes it out of the training text."""
    on_bad_corpus: Literal["fail", "skip"] = "fail"
    """What to do about a training corpus that cannot be fetched or read: stop, or report it and go on without it."""
    mirror: str = ""
    """Folder that is looked into before any address is fetched: by file name, or by content where a sha256 is known."""
    offline: bool = False
    """Fetch nothing from the network: what neither the mirror nor an earlier download has is an error."""
    lock: str = ""
    """File that records the sha256 of what is fetched for the first time, and that later fetches must agree with;
    empty: beside the recipe's file, and none for a recipe that comes with the package."""
    licence: str = ""
    """Licence of the text, for the model card, of the corpora that name none and of whose address none is known."""

    @model_validator(mode="after")
    def _has_text(self) -> "CorpusConfig":
        if self.toy is None and not self.train:
            raise ValueError("names no training text: set corpus.train, or corpus.toy for the toy corpus")
        if self.toy is not None and (self.train or self.dev or self.test):
            raise ValueError("has both corpus.toy and files: the toy corpus brings its own dev and test text")
        names = [files.name for files in (*self.train, *self.dev, *self.test)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"uses the name {twice[0]!r} twice: give every corpus a name of its own")
        return self


class FilterConfig(Section):
    """What a pair must be like to be kept; it may differ from corpus to corpus and between pairs of languages."""

    min_words: int = Field(1, ge=1)
    """Fewest words a side may have."""
    max_words: int = Field(150, ge=1)
    """Most words a side may have."""
    min_characters: int = Field(1, ge=1)
    """Fewest characters a side may have."""
    max_characters: int = Field(1_500, ge=1)
    """Most characters a side may have."""
    max_word_characters: int = Field(40, ge=1, le=1_000)
    """Longest word, in characters; a longer one is an address, a table or a broken encoding."""
    max_length_ratio: float = Field(4.0, gt=1)
    """Longest side over shortest side, in characters weighted by `characters_per_character`."""
    characters_per_character: float = Field(0.0, ge=0)
    """Source characters that say as much as one target character (about 2 from English to Korean); 0: what is usual
    between the languages."""
    min_letter_share: Share = 0.4
    """Least share of letters among the characters other than spaces."""
    min_script_share: Share = 0.25
    """Least share of the language's own script among the letters of a side."""
    min_language_probability: Share = 0.2
    """Least probability that a side is in its language; 0: languages are not identified."""
    drop_copies: bool = True
    """Drop a pair whose sides are equal but for case, punctuation and spaces."""
    max_copied_share: Share = 0.8
    """Largest share of the words of a side of five words or more that stand on the other side as well; 1: any."""
    numbers_must_match: bool = False
    """Drop a pair whose sides hold different numbers."""
    addresses_must_match: bool = False
    """Drop a pair whose sides hold different web or mail addresses."""
    placeholders_must_match: bool = True
    """Drop a pair whose sides hold different placeholders, such as %s, {name} or ${path}."""
    tags_must_match: bool = True
    """Drop a pair whose sides hold different mark-up tags, such as <b>."""
    max_repeated_characters: int = Field(20, ge=0)
    """Longest run of one character; 0: any."""
    max_repeated_words: int = Field(3, ge=0)
    """Most times that a run of one to four words may stand in a row; 0: any."""
    end_marks_must_match: bool = False
    """Drop a pair of which one side ends as a sentence or a question does, and the other does not."""
    brackets_must_match: bool = False
    """Drop a pair of which one side has a bracket without its partner."""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> "FilterConfig":
        for unit in ("words", "characters"):
            least, most = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            if least is not None and most is not None and least > most:
                raise ValueError(f"min_{unit}={least} is more than max_{unit}={most}: swap them")
        return self


class _OverrideScope(Section):
    """Other thresholds for a pair of languages, for a corpus, or for a corpus in a pair of languages.

    The narrower scope wins: the defaults, the pair, the corpus, the corpus in the pair.
    """

    pair: Annotated[str, AfterValidator(_is_shortest_code)] = Field("", pattern="^([a-z]{2,3}-[a-z]{2,3})?$")
    """Languages, as in en-ko; empty: all."""
    corpus: str = ""
    """Name of the corpus; empty: all."""

    @model_validator(mode="after")
    def _has_a_scope(self) -> "_OverrideScope":
        if not self.pair and not self.corpus:
            raise ValueError("names neither a pair nor a corpus: set one, or change the values in `clean` itself")
        return self


if TYPE_CHECKING:

    class FilterOverride(_OverrideScope):
        """Thresholds of `FilterConfig`, any of which may be left out."""

else:  # every threshold with its own bounds and meaning, but no default: written once, in FilterConfig
    FilterOverride = create_model(
        "FilterOverride",
        __base__=_OverrideScope,
        __doc__=_OverrideScope.__doc__,
        __module__=__name__,
        **{
            name: (
                Annotated[knob.annotation, Field(), *knob.metadata] | None,
                Field(None, description=knob.description),
            )
            for name, knob in FilterConfig.model_fields.items()
        },
    )


def _is_command(text: str) -> str:
    if text and not shlex.split(text):
        raise ValueError("names no program: write the command, or leave it empty")
    return text


CROSS_ENTROPY_DIFFERENCE = "cross-entropy-difference"
"""The score that the package has itself."""


class ScoreRule(Section):
    """A score of each pair, and the scores that a pair is kept with."""

    scorer: str = Field(min_length=1)
    """`cross-entropy-difference` (see `clean.in_domain`; 0 and more is more like the domain than not), or an entry
    point of the group `nmt_pipeline.scorers`, or module:function; it gets pairs and returns a number each. With
    `command`, any name for the score."""
    command: Annotated[str, AfterValidator(_is_command)] = ""
    """Program that reads lines of source, tab, target and writes one number for each, such as
    `bicleaner-ai-classify --score_only --scol 1 --tcol 2 -q - - MODEL`; no shell reads it. Empty: `scorer` is a
    function."""
    min_score: float | None = None
    """Least score to keep; empty: any."""
    max_score: float | None = None
    """Largest score to keep; empty: any."""


class CleanConfig(FilterConfig):
    """Normalisation, filters, deduplication and decontamination of the training text."""

    unicode_form: Literal["NFC", "NFKC"] = "NFC"
    """Unicode normalisation form."""
    punctuation: Literal["as is", "Moses"] = "as is"
    """Whether quotes, dashes and the spaces at punctuation are made one, as Moses' normalize-punctuation does."""
    overrides: tuple[FilterOverride, ...] = ()
    """Other thresholds for some corpora or pairs of languages."""
    source_word_list: str = ""
    """Path of a file of words or phrases, one a line; a pair whose source side holds one is dropped."""
    target_word_list: str = ""
    """The same for the target side."""
    scores: tuple[ScoreRule, ...] = ()
    """Scores of each pair: `cross-entropy-difference`, which comes with the package and says how much more like the
    text of `in_domain` than like all of the text a pair is; functions of others, such as embedding similarity; or
    programs that are started, such as bicleaner-ai."""
    in_domain: str = Field("", pattern="^[A-Za-z0-9._-]*$")
    """Text of the domain that is wanted, for `cross-entropy-difference`: the name of a corpus of `corpus`, a training
    corpus or a dev set, but no test set."""
    in_domain_pairs: int = Field(100_000, ge=1_000)
    """Most pairs of `in_domain` that language models are learnt from; as many are drawn from all training corpora."""
    filters: tuple[str, ...] = ()
    """Further filters: entry points of the group `nmt_pipeline.filters`, or module:function."""
    deduplicate: Literal["none", "exact", "normalised"] = "normalised"
    """Which copies of a pair to drop: none, equal ones, or those equal but for case, punctuation and spaces."""
    max_per_source: int = Field(0, ge=0)
    """Most pairs with the same source side; 0: any number."""
    max_per_target: int = Field(0, ge=0)
    """Most pairs with the same target side; 0: any number."""
    prefer: Literal["first", "best"] = "first"
    """Which of several copies stay: the first, or those that the first rule of `scores` gives most."""
    near_duplicates: Share = 0.0
    """Drop a pair whose words are like an earlier pair's to at least this share (Jaccard, by MinHash); 0: keep it."""
    decontaminate: bool = True
    """Drop a training pair that shares a sentence, or a run of `ngram_words` words, with a dev or test set."""
    ngram_words: int = Field(13, ge=3)
    """Length of the run of words that betrays a held-out sentence."""
    short_ngram_words: int = Field(9, ge=3)
    """The same for held-out sentences of fewer than `ngram_words` words; still shorter ones count only as a whole."""
    max_line_bytes: int = Field(100_000, ge=1_000)
    """Longest line that is read; a longer one is dropped unread."""
    shard_pairs: int = Field(250_000, ge=1_000)
    """Pairs that are read, and cleaned by one worker, at a time."""

    @model_validator(mode="after")
    def _fits_together(self) -> "CleanConfig":
        if self.short_ngram_words > self.ngram_words:
            raise ValueError(
                f"short_ngram_words={self.short_ngram_words} is more than ngram_words={self.ngram_words}: swap them"
            )
        is_asked = any(rule.scorer == CROSS_ENTROPY_DIFFERENCE and not rule.command for rule in self.scores)
        if is_asked and not self.in_domain:
            raise ValueError(
                f"the score {CROSS_ENTROPY_DIFFERENCE} compares with text of a domain: name its corpus as in_domain"
            )
        if self.in_domain and not is_asked:
            raise ValueError(
                f"in_domain={self.in_domain!r} is for the score {CROSS_ENTROPY_DIFFERENCE}: add it to scores, with the "
                "least score to keep"
            )
        if self.prefer == "best" and not self.scores:
            raise ValueError("prefer=best needs a score: name a scorer in clean.scores")
        return self


class SplitConfig(Section):
    """Dev and test text taken out of the training text, where the recipe names none."""

    dev_pairs: int = Field(1_000, ge=1)
    """Pairs to hold out for validation, if `corpus.dev` is empty; from corpora that `mix` does not tag or leave out."""
    test_pairs: int = Field(1_000, ge=1)
    """Pairs to hold out for scoring, if `corpus.test` is empty; from the same corpora."""
    seed: int = Field(1, ge=0)
    """Seed of the draw."""


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


Pretokenizing = Literal["none", "moses", "morphemes", "kiwi"]
"""What cuts text before SentencePiece does."""
Pieces = Literal["bpe", "unigram", "char", "word"]
"""What pieces of text have an id."""


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
    Korean morphemes by mecab-ko, or by Kiwi, which no piece then reaches over and which leave no trace."""
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
    sample_pairs: int = Field(5_000_000, ge=1_000)
    """Pairs to learn from; more are sampled down."""
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
    def kinds(self) -> tuple[Pieces, Pieces]:
        """What the pieces of source and target are."""
        return self.kind, self.kind if self.target_kind == "same" else self.target_kind


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


class RnnConfig(Section):
    """A recurrent network, with `model.architecture: rnn`; the defaults are RNNsearch (Bahdanau et al. 2015).

    Of the other knobs of `model` it reads `d_model`, the width of its embeddings, the numbers of layers, `dropout` (on
    embeddings, between layers and before the output) and `tied_embeddings`.
    """

    cell: Literal["gru", "lstm"] = "gru"
    """The gated hidden unit (Cho et al. 2014, section 2.3), or long short-term memory with a forget gate."""
    attention: Literal["none", "additive", "dot"] = "additive"
    """How the decoder sees the source: as one vector (Cho et al. 2014; Sutskever et al. 2014), by an alignment model
    (Bahdanau et al. 2015), or by products with its own state (Luong et al. 2015)."""
    context: Literal["every step", "first state"] = "every step"
    """Of attention=none: every step and the readout read the vector (Cho et al. 2014, appendix A), or it is the
    decoder's first state and no more (Sutskever et al. 2014)."""
    hidden_size: int = Field(1_000, ge=1)
    """Hidden units of a layer and direction."""
    alignment_size: int = Field(1_000, ge=1)
    """Of attention=additive: hidden units of the alignment model."""
    maxout_size: int = Field(500, ge=1)
    """Maxout units of the readout, of attention=additive and of context=every step; each is the larger of two."""
    bidirectional: bool = True
    """Whether each layer of the encoder reads the source in both directions."""
    reverse_source: bool = False
    """Whether an encoder of one direction reads the source from its end (Sutskever et al. 2014, section 3.3)."""

    @property
    def hands_over_states(self) -> bool:
        """Whether the decoder's layers start from the last states of the encoder's."""
        return self.attention == "dot" or (self.attention == "none" and self.context == "first state")

    @property
    def state_size(self) -> int:
        """Width of what the output matrix reads."""
        return self.hidden_size if self.hands_over_states else self.maxout_size

    @model_validator(mode="after")
    def _fits_together(self) -> "RnnConfig":
        if self.context == "first state" and self.attention != "none":
            raise ValueError(f"context=first state is for attention=none, not for {self.attention}: remove either")
        if self.hands_over_states and self.bidirectional:
            raise ValueError(
                "bidirectional=true leaves two last states to each layer of the encoder, and the decoder starts from "
                f"one, with attention={self.attention} and context={self.context}: set bidirectional to false"
            )
        if self.reverse_source and self.bidirectional:
            raise ValueError("reverse_source=true is for one direction: set bidirectional to false, or leave it false")
        return self


class ModelConfig(Section):
    """The Transformer (Vaswani et al. 2017), whose base model the defaults are, or a recurrent network."""

    architecture: Literal["transformer", "rnn"] = "transformer"
    """The Transformer, or the recurrent network of `rnn`."""
    rnn: RnnConfig = RnnConfig()
    """The recurrent network, with architecture=rnn."""
    d_model: int = Field(512, ge=8)
    """Width of the embeddings and of every sub-layer's output."""
    d_ff: int = Field(2_048, ge=8)
    """Width of the feed-forward sub-layer's inner layer."""
    num_heads: int = Field(8, ge=1)
    """Attention heads; must divide `d_model`, unless the next two are set."""
    key_width: int = Field(0, ge=0)
    """Width of the queries and keys of a head, d_k (section 3.2.2); 0: d_model / num_heads."""
    value_width: int = Field(0, ge=0)
    """Width of the values of a head, d_v; 0: d_model / num_heads."""
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    """Of the feed-forward sub-layer: ReLU, as published, GELU (Hendrycks and Gimpel 2016), or SwiGLU (Shazeer 2020),
    whose gate is a third matrix: two thirds of `d_ff` give it as many weights."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Positions are computed and added (section 3.5); or learned: a vector for each, in one table for both languages
    (Table 3, row E); or turn the queries and keys of self-attention (Su et al. 2021)."""
    max_positions: int = Field(2_048, ge=64, le=65_536)
    """Vectors of learned positions: the longest sequence, in tokens, that the model can read or write. Those beyond
    the longest sequence in training stay random."""
    encoder_layers: int = Field(6, ge=1)
    """Layers of the encoder."""
    decoder_layers: int = Field(6, ge=1)
    """Layers of the decoder."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout on the output of each sub-layer and on the sums of embeddings and positions (section 5.4)."""
    norm: Literal["post", "pre"] = "post"
    """Layer norm after the residual sum, as published, or before the sub-layer."""
    tied_embeddings: Literal["three-way", "two-way", "none"] = "three-way"
    """Matrices that are one: source, target and output; target and output; or none."""

    @model_validator(mode="after")
    def _is_a_recurrent_network_that_can_be(self) -> "ModelConfig":
        rnn = self.rnn
        if self.architecture == "transformer":
            if rnn != RnnConfig():
                raise ValueError("rnn says nothing for architecture=transformer: set architecture to rnn, or remove it")
            return self
        if rnn.attention == "additive" and self.decoder_layers != 1:
            raise ValueError(
                f"decoder_layers={self.decoder_layers}: a decoder with an alignment model (rnn.attention=additive) has "
                "one: set decoder_layers to 1"
            )
        if rnn.hands_over_states and self.encoder_layers != self.decoder_layers:
            raise ValueError(
                f"encoder_layers={self.encoder_layers} and decoder_layers={self.decoder_layers}: each layer of the "
                f"decoder starts from one of the encoder with rnn.attention={rnn.attention}: set both to one number"
            )
        if self.tied_embeddings != "none" and rnn.state_size != self.d_model:
            raise ValueError(
                f"tied_embeddings={self.tied_embeddings} needs an output of the embeddings' width, and a readout of "
                f"{rnn.state_size} is not d_model={self.d_model}: set tied_embeddings to none"
            )
        return self

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "ModelConfig":
        if self.architecture == "rnn":  # it has neither heads nor positions
            return self
        if self.d_model % self.num_heads and not (self.key_width and self.value_width):
            raise ValueError(
                f"d_model={self.d_model} is not a multiple of num_heads={self.num_heads}: change either, or set "
                "key_width and value_width"
            )
        if self.d_model % 2 and self.positions == "sinusoidal":
            raise ValueError(f"d_model={self.d_model} is odd: sinusoidal positions come in pairs")
        if self.head_widths[0] % 2 and self.positions == "rotary":
            raise ValueError(
                f"positions=rotary turns pairs, and the keys of a head are {self.head_widths[0]} wide: set "
                "key_width to an even number"
            )
        return self

    @property
    def head_widths(self) -> tuple[int, int]:
        """Width of a head's queries and keys, and of its values."""
        usual = self.d_model // self.num_heads
        return self.key_width or usual, self.value_width or usual


class TrainConfig(Section):
    """Optimisation. The number of processes changes the speed, never the result."""

    start_from: str = ""
    """What training starts from: a registered model (`models:/NAME@ALIAS` or `models:/NAME/VERSION`), an artifact
    (`average/FINGERPRINT` or `train/FINGERPRINT`), its folder, or a .safetensors file; empty: random weights. Its
    vocabulary and its `model` must be those of this recipe."""
    start_optimizer: Literal["fresh", "kept"] = "fresh"
    """Adam's moments at the start: none, or those of the last checkpoint of a `train/FINGERPRINT`. Learning rate, order
    of the data and count of updates start anew in both cases."""
    seed: int = Field(1, ge=0)
    """Seed of the weights, of dropout and of the order of the data."""
    max_updates: int = Field(100_000, ge=1)
    """Updates of the weights in all."""
    batching: Literal["padded", "packed"] = "padded"
    """Pairs of like length padded to one length (for CPUs), or of any length packed into streams (for GPUs)."""
    max_tokens: int = Field(25_000, ge=64)
    """Tokens per update over all processes: no more than this many on either side, padding included."""
    slice_tokens: int = Field(2_048, ge=64)
    """Tokens of a slice on either side, padding included; an update has as many slices as fit. Processes share them."""
    max_tokens_per_pass: int = Field(25_000, ge=64)
    """Packed slices of a process are joined up to this many tokens, computed together; more take more memory."""
    warmup_updates: int = Field(4_000, ge=1)
    """Updates over which the learning rate rises (section 5.3)."""
    learning_rate_schedule: Literal["inverse_sqrt", "constant"] = "inverse_sqrt"
    """Rising over `warmup_updates` and falling from there (section 5.3), or always `learning_rate_scale`."""
    learning_rate_scale: float = Field(1.0, gt=0)
    """Factor on d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5) (section 5.3); of a constant rate, the
    rate itself."""
    optimizer: Literal["adam", "adamw", "adadelta"] = "adam"
    """Adam as published, or with decoupled weight decay (Loshchilov and Hutter 2019); or Adadelta (Zeiler 2012), whose
    learning rate is usually a constant 1."""
    weight_decay: float = Field(0.0, ge=0)
    """Share of each weight that adamw takes off per update, times the learning rate."""
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    """Decay of Adam's first moment."""
    adam_beta2: float = Field(0.98, ge=0, lt=1)
    """Decay of Adam's second moment."""
    adam_epsilon: float = Field(1e-9, gt=0)
    """Adam's epsilon."""
    adadelta_rho: float = Field(0.95, ge=0, lt=1)
    """Decay of Adadelta's two moments."""
    adadelta_epsilon: float = Field(1e-6, gt=0)
    """Adadelta's epsilon."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Probability mass that is spread over the whole vocabulary (section 5.4)."""
    max_gradient_norm: float = Field(0.0, ge=0)
    """Clip the gradient to this norm; 0: never."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic of the matrix products (the rest is fp32); auto: bf16 where the hardware has it, else fp32."""
    parallel: Literal["ddp", "fsdp", "hsdp"] = "ddp"
    """Every process has all weights, a shard of them, or a shard in its group of `shard_size` processes."""
    shard_size: int = Field(0, ge=0)
    """Processes of a group that shares one copy of the weights, for hsdp; 0: those of a node."""
    activation_checkpointing: bool = False
    """Compute each layer's activations twice in place of keeping them: a third more time, far less memory."""
    compile_layers: bool = True
    """Compile each layer with torch.compile, on GPUs."""
    ema_decay: float = Field(0.0, ge=0, lt=1)
    """Keep an exponential moving average of the weights, of which an update leaves this share; 0: none."""
    validate_every: int = Field(1_000, ge=1)
    """Updates between two validations on the dev set."""
    checkpoint_every: int = Field(1_000, ge=1)
    """Updates between two checkpoints."""
    keep_checkpoints: int = Field(5, ge=1)
    """Last checkpoints whose weights are kept."""
    keep_best: int = Field(0, ge=0)
    """Checkpoints with the best `stop_on` whose weights are kept beside the last `keep_checkpoints`."""
    spike_deviations: float = Field(10.0, ge=0)
    """Go back if an update's loss is this many standard deviations above the mean of those before; 0: never."""
    spike_window: int = Field(200, ge=10)
    """Updates that mean and deviation are taken of."""
    max_rollbacks: int = Field(3, ge=0)
    """How often to go back to the last checkpoint, after a loss too high or no number, before giving up."""
    patience: int = Field(0, ge=0)
    """Validations without a better `stop_on` after which training stops; 0: never."""
    stop_on: Literal["dev_loss", "bleu", "chrf"] = "dev_loss"
    """What has to improve on the dev set for `patience`, and what the checkpoints of `keep_best` are best in."""
    dev_sentences: int = Field(0, ge=0)
    """Sentences of the dev set, at even distances, that each validation translates and scores; 0: none."""
    dev_beam_size: int = Field(1, ge=1, le=64)
    """Beam size of these translations; 1 is greedy search."""
    dev_samples: int = Field(3, ge=0, le=100)
    """Translations that each validation shows in the log."""
    profile_updates: int = Field(0, ge=0)
    """Updates to trace with PyTorch's profiler, from the eleventh of each process on, into `profile/`; 0: none."""

    @model_validator(mode="after")
    def _has_an_optimizer_to_keep(self) -> "TrainConfig":
        if self.start_optimizer == "kept" and not self.start_from:
            raise ValueError("start_optimizer=kept needs something to start from: set start_from to train/FINGERPRINT")
        return self

    @model_validator(mode="after")
    def _slices_fit(self) -> "TrainConfig":
        for knob in ("max_tokens", "max_tokens_per_pass"):
            if self.slice_tokens > getattr(self, knob):
                raise ValueError(
                    f"slice_tokens={self.slice_tokens} is more than {knob}={getattr(self, knob)}: lower the one or "
                    "raise the other"
                )
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(f"weight_decay={self.weight_decay} is for adamw: set optimizer to adamw, or leave it 0")
        return self

    @model_validator(mode="after")
    def _has_the_scores_it_needs(self) -> "TrainConfig":
        if self.stop_on != "dev_loss" and not self.dev_sentences:
            raise ValueError(f"stop_on={self.stop_on} needs translations to score: set dev_sentences, as to 500")
        if self.keep_best and self.checkpoint_every % self.validate_every:
            raise ValueError(
                f"keep_best={self.keep_best} needs a score of every checkpoint, but checkpoint_every="
                f"{self.checkpoint_every} is no multiple of validate_every={self.validate_every}: change either"
            )
        return self


class AverageConfig(Section):
    """Averaging of checkpoints (Vaswani et al. 2017, section 6.1); if the best of them alone has a lower dev loss than
    their average, that one goes on."""

    strategy: Literal["last", "best", "ema"] = "last"
    """The mean of the last checkpoints, or of those with the lowest dev loss; or the exponential moving average that
    training keeps with `train.ema_decay`."""
    checkpoints: int = Field(5, ge=1)
    """Checkpoints to average; not used with ema."""


Precision = Literal["fp32", "int8", "fp16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class ExportConfig(Section):
    """ONNX export, and the gates that compare it with PyTorch and the precisions with each other."""

    precisions: tuple[Precision, ...] = PRECISIONS
    """Graphs to make: int8 is for CPUs and fp16 for GPUs; fp32 is always made, for it is what the others are compared
    with."""
    parity_sentences: int = Field(500, ge=1)
    """Held-out sentences that PyTorch and the fp32 graphs translate; every beam must be identical."""
    parity_beam_size: int = Field(4, ge=1)
    """Beam size of that comparison, and of that of precisions."""
    parity_tolerance: float = Field(1e-4, gt=0)
    """Largest difference of log-probabilities, in nats."""
    calibration_sentences: int = Field(200, ge=1)
    """Sentences of the dev set that are translated to measure the scales of int8."""
    quality_sentences: int = Field(1_000, ge=1)
    """Sentences of the dev set, from its start, that each precision translates."""
    max_bleu_loss: float = Field(0.2, ge=0)
    """BLEU that a precision may lose against fp32 there; one that loses more is not published."""


class SearchConfig(Section):
    """How translations are found: by beam search, or by sampling."""

    method: Literal["beam", "sample"] = "beam"
    """beam: the likeliest translation, as far as a beam finds it; sample: one that is drawn by chance, as for
    back-translation."""
    beam_size: int = Field(4, ge=1, le=64)
    """Hypotheses that are kept at each step; 1 is greedy search."""
    n_best: int = Field(1, ge=1, le=64)
    """Translations of each line, with their scores: the best of a beam, or as many samples."""
    length_penalty: float = Field(0.6, ge=0)
    """Alpha of the length penalty ((5 + length) / 6)^alpha (Wu et al. 2016, section 7)."""
    max_length_factor: float = Field(1.0, ge=0, le=100)
    """Most target tokens: those of the source times this, plus `max_length_offset`."""
    max_length_offset: int = Field(50, ge=1)
    """See `max_length_factor` (Vaswani et al. 2017, section 6.1: 1 and 50)."""
    min_length: int = Field(0, ge=0)
    """Fewest target tokens."""
    source_prefix: str = ""
    """Text whose tokens come before those of each source, as the tag of a language: <2de>."""
    target_prefix: str = ""
    """Text with whose tokens every translation begins. They count nothing in its score."""
    temperature: float = Field(1.0, gt=0, le=100)
    """Of sampling: log-probabilities are divided by it. Less than 1 makes the likely more likely."""
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


Kept = Literal["numbers", "addresses", "placeholders", "tags"]
"""What a translation takes over as it is."""


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression ({error}): correct it") from None
    return text


class MustTranslate(Section):
    """A sentence that a model has to translate well enough to become champion."""

    source: Sentence
    """The sentence."""
    contains: tuple[Sentence, ...] = ()
    """Text that the translation must hold, each of it: terms, names."""
    matches: Annotated[str, AfterValidator(_is_pattern)] = ""
    """Regular expression that must be found in the translation; empty: none."""
    not_contains: tuple[Sentence, ...] = ()
    """Text that the translation must not hold, none of it."""
    keep: tuple[Kept, ...] = get_args(Kept)
    """What of the sentence must stand in the translation as well, and nothing else of the kind: digits of numbers, web
    and mail addresses, placeholders such as %s or {name}, mark-up tags."""


class EvaluateConfig(Section):
    """Scoring of the exported model."""

    samples: int = Field(3, ge=0, le=100)
    """Sentences of the first test set that are shown with their translations."""
    sentences: tuple[Sentence, ...] = ()
    """Further sentences to translate and to show."""
    must_translate: tuple[MustTranslate, ...] = ()
    """Sentences that a model has to translate as they say; one that does not is never champion by itself."""
    interval_samples: int = Field(1_000, ge=0)
    """Resamples of a test set from which the 95% confidence interval of each score is taken; 0: no intervals."""


MetricName = Literal["BLEU", "chrF"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
SignificanceTest = Literal["bootstrap", "randomisation"]


class RegistryConfig(Section):
    """The MLflow model registry, and the gate that a model passes on its way to champion: to production."""

    model_name: str = Field("", pattern="^[A-Za-z0-9._-]*$")
    """Name of the registered model; empty: the recipe's name."""
    max_slowdown: float = Field(0.2, ge=0)
    """How much slower than the champion a model may translate that takes its place, on the machine that registers it:
    0.2 is 20% fewer tokens per second."""
    metric: MetricName = "BLEU"
    """What the quality of champion and challenger is compared in, on every test set."""
    significance: float = Field(0.05, gt=0, lt=1)
    """A difference counts if chance alone gives one as large less often than this (p-value). On the main test set the
    challenger must be better by that measure, and on no other one worse."""
    significance_test: SignificanceTest = "bootstrap"
    """How chance is told: paired bootstrap resampling (Koehn 2004), or approximate randomisation (Riezler and Maxwell
    2005)."""
    samples: int = Field(1_000, ge=1_000, le=1_000_000)
    """Resamples, or trials, of that test."""
    contamination: Literal["refuse", "allow"] = "refuse"
    """What to do with a model that may have been trained on test sentences, as with `clean.decontaminate` off."""
    built_in_sentences: Literal["no worse", "all", "off"] = "no worse"
    """Numbers, addresses and placeholders by themselves, which a model should copy: it must keep no fewer of them than
    the champion (the first champion may keep any number), or all, or they are not looked at."""


class BudgetConfig(Section):
    """What training may take, over all its attempts; at its end it stops with a checkpoint, and a larger budget goes on
    from there. It decides when, and never what: no artifact is made anew because of it. The other stages are short,
    have no checkpoints and are not limited."""

    max_gpu_hours: float = Field(0.0, ge=0)
    """GPUs times hours, from the start of the processes that train to their end; 0: any. Training on CPUs has none."""
    max_hours: float = Field(0.0, ge=0)
    """Hours of training, on whatever it runs and however many processes; 0: any."""


def _is_cron(text: str) -> str:
    if text and not re.fullmatch(r"\S+( \S+){4}", text):
        raise ValueError('must be the five fields of cron, as in "0 3 * * 1" for Mondays at three, or empty')
    return text


Cron = Annotated[str, AfterValidator(_is_cron)]


def _is_timezone(name: str) -> str:
    try:
        if name != "UTC":  # known everywhere, also where there is no database
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is no time zone of the IANA database: write UTC, or one such as Asia/Seoul") from None
    return name


class ScheduleConfig(Section):
    """When a recipe runs by itself, once `nmt deploy` has told Prefect. It decides nothing of what is made."""

    cron: Cron = ""
    """When to retrain, as five fields of cron: "0 3 * * 1" is Mondays at three; empty: only when asked to."""
    watch: Cron = ""
    """When to look whether the text at the recipe's addresses has changed, in the same form; new text starts a
    retraining. Empty: never."""
    timezone: Annotated[str, AfterValidator(_is_timezone)] = "UTC"
    """Time zone of both, by its name in the IANA database."""


class PipelineConfig(Section):
    """One recipe: everything that decides what the trained model is."""

    name: str = Field(pattern="^[A-Za-z0-9._-]+$")
    """Short name of the recipe."""
    description: str = ""
    """What the recipe makes, in a line or two."""
    languages: LanguagesConfig = LanguagesConfig()
    corpus: CorpusConfig
    clean: CleanConfig = CleanConfig()
    split: SplitConfig = SplitConfig()
    mix: MixConfig = MixConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    encode: EncodeConfig = EncodeConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    average: AverageConfig = AverageConfig()
    export: ExportConfig = ExportConfig()
    search: SearchConfig = SearchConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    registry: RegistryConfig = RegistryConfig()
    budget: BudgetConfig = BudgetConfig()

    schedule: ScheduleConfig = ScheduleConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> "PipelineConfig":
        if self.average.strategy == "ema":
            if not self.train.ema_decay:
                raise ValueError("average.strategy=ema needs a moving average: set train.ema_decay, as to 0.999")
        else:
            kept = {"train.keep_checkpoints": self.train.keep_checkpoints}
            if self.average.strategy == "best":  # the best may be the last, so their numbers do not add up
                kept["train.keep_best"] = self.train.keep_best
            if self.average.checkpoints > max(kept.values()):
                raise ValueError(
                    f"average.checkpoints={self.average.checkpoints} is more than "
                    f"{' and '.join(f'{name}={count}' for name, count in kept.items())}: keep as many as are averaged"
                )
        longest = self.train.slice_tokens // (2 if self.train.batching == "packed" else 1)
        if self.encode.max_length > longest:
            raise ValueError(
                f"encode.max_length={self.encode.max_length} is more than {longest}, which is what fits into "
                f"train.slice_tokens={self.train.slice_tokens} with train.batching={self.train.batching}: lower the "
                "one or raise the other"
            )
        one_way = {"char", "word"} & set(self.tokenizer.kinds)
        if self.encode.subword_sampling and one_way and not self.tokenizer.start_from:
            raise ValueError(
                f"encode.subword_sampling={self.encode.subword_sampling} has nothing to choose from, for with "
                f"tokenizer.kind={one_way.pop()} text is cut in one way: set it to 0, or kind to bpe or unigram"
            )
        if self.model.architecture == "rnn" and self.train.batching == "packed":
            raise ValueError(
                "train.batching=packed is for model.architecture=transformer: a recurrent network reads sentences "
                "side by side: set train.batching to padded"
            )
        if self.tokenizer.vocabularies == "separate" and self.model.tied_embeddings == "three-way":
            raise ValueError(
                "tokenizer.vocabularies=separate leaves nothing to tie three ways: set model.tied_embeddings to two-way"
            )
        return self

    @model_validator(mode="after")
    def _has_enough_positions(self) -> "PipelineConfig":
        positions, search = self.model.max_positions, self.search
        if self.model.positions == "learned" and self.encode.max_length > positions:
            raise ValueError(
                f"encode.max_length={self.encode.max_length} is more than model.max_positions={positions}: lower the "
                "one or raise the other"
            )
        if self.model.positions == "learned" and search.most_positions > positions:
            raise ValueError(
                f"search.max_source_tokens={search.max_source_tokens} with search.max_length_factor="
                f"{search.max_length_factor:g} and search.max_length_offset={search.max_length_offset} needs "
                f"{search.most_positions:,} positions, more than model.max_positions={positions}: lower the first, or "
                "raise the last"
            )
        return self

    @model_validator(mode="after")
    def _names_its_own_corpora(self) -> "PipelineConfig":
        names = {corpus.name for corpus in self.corpus.train} or {"toy"}
        asked = {f"mix.corpora.{n}.corpus": rule.corpus for n, rule in enumerate(self.mix.corpora)}
        asked |= {f"clean.overrides.{n}.corpus": rule.corpus for n, rule in enumerate(self.clean.overrides)}
        if self.clean.in_domain not in {corpus.name for corpus in self.corpus.dev}:
            asked["clean.in_domain"] = self.clean.in_domain
        for place, name in asked.items():
            if name and name not in names:
                raise ValueError(f"{place}={name!r} is none of corpus.train ({', '.join(sorted(names))}): correct it")
        return self

    @property
    def model_name(self) -> str:
        """Name under which the model is registered."""
        return self.registry.model_name or self.name
