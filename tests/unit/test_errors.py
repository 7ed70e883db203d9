"""Messages of errors: without passwords, in one short line, and with nouns that agree with their counts."""

import pickle
import re
from pathlib import Path

import pytest

import nmt_core
from nmt_core.errors import BudgetError, ConfigError, DataError, counted, without_password, words_of

ROOT = Path(nmt_core.__file__).parent.parent
ADDRESS = "ftp://nmt:sesame@example.org/a.txt"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://mlflow:5000", "http://mlflow:5000"),
        ("http://nmt:pa:ss@mlflow:5000/x", "http://nmt:***@mlflow:5000/x"),
        ("postgresql+psycopg://:pass@db/mlflow", "postgresql+psycopg://:***@db/mlflow"),
        ("no http://u:p@a/, no http://u:q@b/: mail me@b", "no http://u:***@a/, no http://u:***@b/: mail me@b"),
        ("https://ghp_TOKEN@host/x.git", "https://***@host/x.git"),
        ("https://s3/b/k?X-Amz-Date=1&X-Amz-Signature=abc/+%3D&x=2", "https://s3/b/k?X-Amz-Date=1&X-Amz-Signature=***&x=2"),
        ("https://hook?token=sesame, then", "https://hook?token=*** then"),
        ("https://h/?access_token=a&api_key=b#top", "https://h/?access_token=***&api_key=***#top"),
        ("https://h/?tokenizer=spm&page=2", "https://h/?tokenizer=spm&page=2"),
        ("s3://bucket/me@work/a?b", "s3://bucket/me@work/a?b"),
        ("sqlite:////home/me@work/mlflow.db", "sqlite:////home/me@work/mlflow.db"),
    ],
)  # fmt: skip
def test_a_password_is_not_shown(text: str, shown: str) -> None:
    assert without_password(text) == shown


@pytest.mark.parametrize("kind", [ConfigError, DataError, BudgetError])
def test_no_error_of_ours_holds_a_password_on_whatever_way_it_goes(kind: type[Exception]) -> None:
    error = kind(f"{ADDRESS}: cannot be read")
    there = pickle.loads(pickle.dumps(error))  # as it comes from a worker
    for text in (str(error), repr(error), str(there), repr(there), words_of(error)):
        assert "ftp://nmt:***@example.org/a.txt: cannot be read" in text
    assert type(there) is kind


def test_the_words_of_an_error_are_one_short_line_without_passwords() -> None:
    assert words_of(OSError("no\n  way")) == "no way"
    assert words_of(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert words_of(OSError(f"at {ADDRESS}")) == "at ftp://nmt:***@example.org/a.txt"
    # a cut in the middle of a password must not hide that it is one
    assert words_of(OSError(f"at {ADDRESS}"), most=16) == "at ftp://nmt:***"
    assert len(words_of(OSError("word " * 1_000))) == 300


@pytest.mark.parametrize("address", ["hf:org/name@main", "models:name@champion", "hf:ORG/NAME@REVISION"])
def test_an_address_with_a_revision_holds_no_password(address: str) -> None:
    assert str(ConfigError(f"corpus news: {address}: is not there")) == f"corpus news: {address}: is not there"
    assert str(ConfigError(f"NMT_STORE='nmt:{'planted'}@b'")) == "NMT_STORE='nmt:***@b'"


def test_a_count_of_one_has_its_noun_in_the_singular() -> None:
    assert [counted(count, "line") for count in (0, 1, 1_204)] == ["0 lines", "1 line", "1,204 lines"]
    assert [counted(count, "corpus", "corpora") for count in (1, 2)] == ["1 corpus", "2 corpora"]


MANY = frozenset(
    [
        "documents.py: {len(names):,} inputs",
        "quality.py: {len(hypotheses):,} translations",
        "shortlist.py: {len(translations_VK):,} pieces",
        "explanation.py: {len(ids):,} pieces",
        "transformer.py: {len(self.positions_LM):,} positions",
        "learn.py: {len(self.sample):,} pairs",
        "artifacts.py: {len(matches)} artifacts",
        "hugging_face.py: {len(files)} files",
        "marian.py: {len(listed)} files",
        "closing.py: {len(summary.stages)} stages",
        "app.py: {len(request.lines):,} lines",
        "installation.py: {len(flows)} deployments",
        "summary.py: {len(matching)} runs",
        "model_card.py: {len(candidate.members)} models",
        "model_card.py: {len(candidate.members)} members",
    ]
)
"""Messages with several or too many items, or "N of M"."""


def test_numbers_that_may_be_one_agree_with_their_nouns() -> None:
    length = re.compile(r"\{len\([^{}]*\)(?::,)?\} [a-z]+s\b")
    found = {
        f"{file.name}: {match[0]}"
        for folder in ("nmt_core", "flows")
        for file in (ROOT / folder).rglob("*.py")
        for match in length.finditer(file.read_text(encoding="utf-8"))
    }
    assert not found - MANY, "use nmt_core.errors.counted"
    assert not MANY - found, "no longer there: take it out of the list"
