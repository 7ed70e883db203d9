"""The `tokenizer` stage with an existing vocabulary: the same files, measured on the new text."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.errors import ConfigError, StageError
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.start import identity
from nmt_core.tokenizer.tokenizer import SPM_FILE


@pytest.mark.parametrize("vocabularies", ["joint", "separate"])
def test_the_files_match_the_model_and_the_report_is_of_the_new_text(
    tiny: dict[str, Artifact], learn: Any, tmp_path: Path, vocabularies: str
) -> None:
    learn(tmp_path / "theirs", vocabularies=vocabularies, vocab_size=600)
    text = pl.read_parquet(tiny["split"].path / "train-*.parquet").head(40)
    (tmp_path / "split").mkdir()
    text.with_columns(source=pl.lit("ñ ") + pl.col("source")).write_parquet(tmp_path / "split" / "train-00000.parquet")
    split = Artifact("split", "0" * 32, tmp_path / "split")
    report = learn(tmp_path / "ours", split, start_from=str(tmp_path / "theirs"), kind="unigram")
    theirs, ours = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("theirs", "ours")
    )
    assert ours == theirs
    assert (report.items_in, report.sampled_pairs, report.measured_pairs) == (40, 0, 40)
    assert report.vocab_size == 600
    assert report.source.known_characters < report.target.known_characters == 1
    assert list(report.unused_pieces) == sorted(theirs)


def test_a_symbol_that_the_vocabulary_does_not_hold_is_refused(learn: Any, tmp_path: Path) -> None:
    learn(tmp_path / "plain")
    learn(tmp_path / "with", tags=("<BT>",), user_symbols=("__NUM__",))
    for options, piece in (({"tags": ("<BT>",)}, "<BT>"), ({"user_symbols": ("__NUM__",)}, "__NUM__")):
        with pytest.raises(ConfigError, match=rf"tokenizer\.start_from=.*spm\.model has no piece '\u2581{piece}'"):
            learn(tmp_path / "out", start_from=str(tmp_path / "plain"), **options)
        assert not (tmp_path / "out" / SPM_FILE).exists()
        learn(tmp_path / "fits", start_from=str(tmp_path / "with"), **options)


def test_a_folder_without_a_vocabulary_is_told(learn: Any, tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"tokenizer\.start_from=/gone: /gone/spm\.model is missing: give the folder"):
        learn(tmp_path, start_from="/gone")


def test_the_content_counts_and_neither_the_place_nor_the_options_of_learning(
    tiny: dict[str, Artifact], make_config: Any, tmp_path: Path
) -> None:
    theirs = tiny["tokenizer"].path
    shutil.copyfile(theirs / SPM_FILE, tmp_path / SPM_FILE)
    (found,) = {
        str(identity(make_config(tokenizer={"start_from": str(place), "vocab_size": size})))
        for place, size in ((theirs, 600), (tmp_path, 700))
    }
    assert str(theirs) not in found
    assert str(identity(make_config(tokenizer={"start_from": str(tmp_path), "user_symbols": ["x"]}))) != found
    (tmp_path / SPM_FILE).write_bytes(b"another")
    assert str(identity(make_config(tokenizer={"start_from": str(tmp_path)}))) != found
    assert identity(make_config(tokenizer={"start_from": "/gone"}))["tokenizer"]["start_from"] == "/gone"
