"""The `tokenizer` stage: pieces from the training text alone, and clear words where they cannot be had."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.artifacts import Artifact
from nmt_core.errors import ConfigError
from nmt_core.stage import Job
from nmt_core.tokenizer.learn import TokenizerReport, run
from nmt_core.tokenizer.tokenizer import SPM_FILE, Tokenizer


def learn(make_config: Any, split: Artifact, out: Path, job: Job, **knobs: Any) -> TokenizerReport:
    out.mkdir(exist_ok=True)
    return run(make_config(tokenizer=knobs), {"split": split}, out, job)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_vocabulary_has_the_size_asked_for(
    tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job, kind: str
) -> None:
    report = learn(make_config, tiny["split"], tmp_path, job, kind=kind, vocab_size=700)
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    assert report.vocab_size == report.items_out == tokenizer.vocab_size == 700
    assert report.items_in == tiny["split"].report()["items_out"]
    assert report.unknown_tokens == 0
    assert 1 < report.source_tokens_per_word < 5
    assert len(report.longest_pieces[0]) >= len(report.longest_pieces[-1]) > 1


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_that_the_text_cannot_fill_names_the_largest_that_it_can(
    tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job, kind: str
) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size=50000 does not fit 930 pairs") as caught:
        learn(make_config, tiny["split"], tmp_path, job, kind=kind, vocab_size=50_000)
    supported = int(str(caught.value).split("set it to ")[1].split()[0])
    report = learn(make_config, tiny["split"], tmp_path / "again", job, kind=kind, vocab_size=supported)
    assert report.vocab_size == supported


def test_a_vocabulary_too_small_for_the_characters_says_to_raise_it(
    tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job
) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size=64") as caught:
        learn(make_config, tiny["split"], tmp_path, job, vocab_size=64)
    message = str(caught.value)
    assert "lower" not in message.replace("lower tokenizer.character_coverage", "")
    assert "character_coverage" in message


def test_the_same_text_and_seed_give_the_same_pieces(
    tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job
) -> None:
    for name in ("one", "two"):
        learn(make_config, tiny["split"], tmp_path / name, job, vocab_size=650)
    one, two = (Tokenizer(tmp_path / name / SPM_FILE) for name in ("one", "two"))
    assert [one.piece(index) for index in range(650)] == [two.piece(index) for index in range(650)]


def test_the_model_does_not_tell_where_it_was_made(
    tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job
) -> None:
    """It is shipped in every bundle, and the same text must give the same file on every machine."""
    learn(make_config, tiny["split"], tmp_path, job)
    assert str(tmp_path).encode() not in (tmp_path / SPM_FILE).read_bytes()


def test_held_out_text_is_not_learnt_from(make_config: Any, tmp_path: Path, job: Job) -> None:
    """A character that only dev and test have gets no piece."""
    split = Artifact("split", "0" * 32, tmp_path / "split")
    split.path.mkdir()
    train = pl.DataFrame({"source": ["abcdefghij klmnop"] * 50, "target": ["qrstuv wxyz"] * 50})
    train.write_parquet(split.path / "train.parquet")
    train.with_columns(source=pl.lit("ñ")).write_parquet(split.path / "dev.parquet")
    learn(make_config, split, tmp_path, job, vocab_size=64)
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    assert "ñ" not in "".join(tokenizer.piece(index) for index in range(64))


def test_bytes_spell_what_the_pieces_cannot(
    tiny: dict[str, Artifact], make_config: Any, tmp_path: Path, job: Job
) -> None:
    learn(make_config, tiny["split"], tmp_path, job, vocab_size=1_000, byte_fallback=True)
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    assert tokenizer.decode(tokenizer.encode(["ñandú 漢字"])) == ["ñandú 漢字"]
