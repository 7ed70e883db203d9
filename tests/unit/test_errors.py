import pickle

import pytest

from nmt_core.errors import BudgetError, ConfigError, DataError, without_password, words_of

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
