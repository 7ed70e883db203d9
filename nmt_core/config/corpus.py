"""`corpus`: where the text comes from."""

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from nmt_core.config.section import Section

Sha256 = Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]


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
