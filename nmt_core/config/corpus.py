"""`corpus`: sources of the text."""

import codecs
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from nmt_core.config.languages import LanguagesConfig, Pair, Side, reverse_of
from nmt_core.config.section import Section, Seed, first_repeated, later

Sha256 = Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]


def _as_text(value: Any) -> Any:
    """Return a number as text: YAML reads `source_column: 3` as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_charset(name: str) -> str:
    try:
        if name:
            "".encode(name)  # unlike `lookup`, this rejects codecs that are not charsets
            codecs.lookup(name)
    except (LookupError, UnicodeError):
        raise ValueError(
            f"{name!r} is not the name of a charset: write one such as windows-1252 or shift_jis"
        ) from None
    return name


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) and value else value


Column = Annotated[str, BeforeValidator(_as_text)]
Charset = Annotated[str, AfterValidator(_is_charset)]


def name_of_set(corpus: str, pairs: Sequence[str], pair: str) -> str:
    """Return the name of a dev or test set in one of the pairs of languages of its corpus, such as `news-en-de`.

    The pair is at the end of the name. The name of the corpus may have its first pair there already.
    """
    return f"{corpus.removesuffix(f'-{pairs[0]}')}-{pair}"


class ToyCorpusConfig(Section):
    """Toy English-Korean corpus, generated from a small grammar without a network."""

    pairs: int = Field(30_000, ge=1_000, le=200_000)
    """Number of sentence pairs in the training text, including deliberately dirty ones."""
    held_out: int = Field(500, ge=10, le=5_000)
    """Number of sentence pairs in the dev set, and in the test set. None of them is in the training text."""
    seed: Seed = 1
    """Random seed of the generator."""

    @model_validator(mode="after")
    def _leaves_text_to_train_on(self) -> "ToyCorpusConfig":
        if self.held_out > self.pairs // 2:
            raise ValueError(f"held_out={self.held_out} is more than half of pairs={self.pairs}: set it lower")
        return self


class ParallelCorpus(Section):
    """Parallel corpus: one address, or two files in which line N of one translates line N of the other.

    A recipe may give the address alone, as in `- opus:Tatoeba/v2023-04-12`. The name is then derived from it.
    """

    name: str = Field(pattern="^[A-Za-z0-9._-]+$")
    """Short name of the corpus, used in reports, in `mix` and in the names of scores."""
    address: str = ""
    """Address of both sides: opus:NAME/VERSION (or opus:NAME/VERSION/en-pt_BR), mtdata:ID, sacrebleu:SET/PAIR,
    hf:ORG/NAME@REVISION, an https:, s3:, gs: or file: address, a path, a folder, or a pattern with * in it. Empty means
    that `source` and `target` name a file each."""
    source: str = ""
    """Address of the source side, if it is a separate file. Empty means that `address` has both sides."""
    target: str = ""
    """Address of the target side, if it is a separate file. Empty means that `address` has both sides."""
    sha256: Sha256 = ""
    """Expected sha256 of the file at `address`, if it is a single file. Empty means that it is not checked."""
    source_sha256: Sha256 = ""
    """Expected sha256 of the source file as downloaded. Empty means that it is not checked."""
    target_sha256: Sha256 = ""
    """Expected sha256 of the target file as downloaded. Empty means that it is not checked."""
    member: str = ""
    """Pattern of the members to read from a zip or tar archive, such as *.tsv or de-en/*. Empty means the one member
    that holds the text, or the one for each language."""
    source_column: Column = ""
    """Source column of a table (TSV, CSV, JSON, JSONL, Parquet, XLSX): its name, or its number from 1. Empty means the
    column that is named after the language, or else after the side (source, src). In a table without a header, it means
    the first column of text."""
    target_column: Column = ""
    """Target column of a table (TSV, CSV, JSON, JSONL, Parquet, XLSX): its name, or its number from 1. Empty means the
    column that is named after the language, or else after the side (target, tgt, ref). In a table without a header, it
    means the second column of text."""
    encoding: Charset = ""
    """Charset of the files, such as windows-1252, shift_jis or utf-16-le. Empty means UTF-8, or what a file declares or
    shows: the charset in the header of XML and PO, and UTF-16 with or without a byte order mark."""
    documents: Column = ""
    """Way to tell the documents of a corpus apart: blank_lines (a line that is blank on both sides ends a document), or
    the column that holds the name of each pair's document, by its name or its number from 1. The number of the document
    is then stored with each pair, in the column `document`. Empty means that documents are not told apart."""
    pairs: Annotated[tuple[Pair, ...], BeforeValidator(_as_list)] = later(())
    """Pair of languages of the corpus, such as en-de, if `languages.pairs` names several. [en-de, de-en] serves both
    directions from one copy of the text, whose source side is in the first language of the first pair. Empty means the
    languages of the recipe."""
    zero_shot: bool = later(False)
    """True for a test set whose pair is not in `languages.pairs`: the model has learned both languages, but never saw
    this pair. Such a set is scored, and the gate ignores it."""
    licence: str = ""
    """Licence of the text. Empty means the known licence of the address, or else `corpus.licence`. A change never
    retrains a model: the model card shows the current value, while `corpora.json` and the column `licence` of the
    shards keep the value from when they were made."""
    citation: str = ""
    """Publication to cite. Empty means the known citation of the address. The model card shows the current value."""

    def languages_in(self, languages: LanguagesConfig) -> LanguagesConfig:
        """Return the source and the target language of the files, given the languages of the recipe."""
        return languages.of(self.pairs[0]) if self.pairs else languages

    @model_validator(mode="before")
    @classmethod
    def _take_an_address_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"address": value}
        if isinstance(value, dict) and not value.get("name") and value.get("address"):
            return value | {"name": re.sub(r"[^A-Za-z0-9._]+", "-", str(value["address"])).strip("-.")}
        return value

    @model_validator(mode="after")
    def _is_in_two_languages(self) -> "ParallelCorpus":
        if len(self.pairs) > 1 and self.pairs[1:] != (reverse_of(self.pairs[0]),):
            raise ValueError(
                f"pairs=[{', '.join(self.pairs)}]: a corpus has one pair, or a pair and its reverse "
                f"([{self.pairs[0]}, {reverse_of(self.pairs[0])}]): name a corpus for each other pair"
            )
        return self

    @model_validator(mode="after")
    def _says_where_it_is(self) -> "ParallelCorpus":
        if bool(self.address) == bool(self.source or self.target) or bool(self.source) != bool(self.target):
            raise ValueError("needs either `address`, or both `source` and `target`: set one or the other")
        if self.address and (self.source_sha256 or self.target_sha256):
            raise ValueError("has an `address`: give its hash as `sha256`")
        if self.source and self.sha256:
            raise ValueError("has two files: give their hashes as `source_sha256` and `target_sha256`")
        if any(urlsplit(address).password for address in (self.address, self.source, self.target)):
            raise ValueError("has a password in its address, visible to all who read the recipe: move it to ~/.netrc")
        return self


class MonolingualCorpus(Section):
    """Text in one language, without translation."""

    name: str = Field(pattern="^[A-Za-z0-9._-]+$")
    """Short name of the text, used in reports."""
    side: Literal["", "source", "target"] = ""
    """Side whose language the text is in. Empty means that `language` names it."""
    language: str = later("", pattern="^[A-Za-z0-9_]*$")
    """Language of the text, such as de, in place of `side`. It must be one of the recipe. With `languages.pairs`, the
    text serves all pairs with this language. Empty means that `side` names it."""
    address: str = Field(min_length=1)
    """Address of the text, of any kind that parallel text may have: lines, a table, an archive, a folder or a pattern.
    Of parallel text, the side is read alone."""
    column: Column = ""
    """Column of a table (TSV, CSV, JSON, JSONL, Parquet, XLSX): its name, or its number from 1. Empty means `text`
    or `source`."""
    encoding: Charset = ""
    """Charset of the files, such as windows-1252. Empty means UTF-8, or what a file declares or shows."""
    member: str = ""
    """Pattern of the members to read from a zip or tar archive. Empty means the member that holds the text."""
    sha256: Sha256 = ""
    """Expected sha256 of the file, if it is a single one. Empty means that it is not checked."""
    licence: str = ""
    """Licence of the text. Empty means the known licence of the address, or else `corpus.licence`."""
    citation: str = ""
    """Publication to cite. Empty means the known citation of the address."""

    def languages_in(self, languages: LanguagesConfig) -> LanguagesConfig:
        """Return a source and a target language of the recipe, of which one is the language of the text."""
        place = languages.place_of(self.language)
        return languages.of(place[0]) if languages.pairs and place else languages

    def side_in(self, languages: LanguagesConfig) -> Side:
        """Return the side of `languages_in` that the text is in."""
        place = languages.place_of(self.language)
        return self.side or (place[1] if place else "target")

    @model_validator(mode="after")
    def _is_in_one_language(self) -> "MonolingualCorpus":
        if not self.side and not self.language:
            raise ValueError("names no language: set language, for example to de, or side to source or target")
        if self.side and self.language:
            raise ValueError(f"has both side={self.side} and language={self.language}: remove one")
        return self

    @model_validator(mode="after")
    def _holds_no_password(self) -> "MonolingualCorpus":
        if urlsplit(self.address).password:
            raise ValueError("has a password in its address, visible to all who read the recipe: move it to ~/.netrc")
        return self


class CorpusConfig(Section):
    """Sources of the text."""

    toy: ToyCorpusConfig | None = None
    """Generate the toy corpus, which supplies the training, dev and test text."""
    train: tuple[ParallelCorpus, ...] = ()
    """Parallel text to train on."""
    dev: tuple[ParallelCorpus, ...] = ()
    """Parallel text for validation during training. Empty means that `split` takes it out of the training text."""
    test: tuple[ParallelCorpus, ...] = ()
    """Test sets for scoring. The first one is the main test set. Empty means that `split` takes one out of the training
    text."""
    monolingual: tuple[MonolingualCorpus, ...] = later(())
    """Text in one language. `clean` filters it, drops copies, and keeps dev and test sentences out of it, as it does
    with parallel text. It is not trained on by itself."""
    on_bad_corpus: Literal["fail", "skip"] = "fail"
    """Reaction to a training corpus that cannot be fetched or read: stop, or report it and continue without it."""
    mirror: str = ""
    """Folder to search before any address is fetched: by file name, or by content if a sha256 is known. Empty means
    none."""
    offline: bool = False
    """Fetch nothing from the network. A file that is neither in the mirror nor downloaded already is an error."""
    lock: str = ""
    """File that records the sha256 of each file when it is first fetched. Later fetches must match it. Empty means a
    file beside the recipe's file, and none for a recipe that comes with the package."""
    licence: str = ""
    """Licence for the model card, for corpora that have no `licence` and whose address has no known one. Empty means
    that it is unknown."""

    @model_validator(mode="after")
    def _has_text(self) -> "CorpusConfig":
        if self.toy is None and not self.train:
            raise ValueError("names no training text: set corpus.train, or corpus.toy for the toy corpus")
        if self.toy is not None and (self.train or self.dev or self.test or self.monolingual):
            raise ValueError(
                "has both corpus.toy and files, but the toy corpus has its own dev and test text: remove one"
            )
        names = [files.name for files in (*self.train, *self.dev, *self.test)]
        names += [text.name for text in self.monolingual]
        if twice := first_repeated(names):
            raise ValueError(f"uses the name {twice!r} twice: give every corpus a name of its own")
        return self
