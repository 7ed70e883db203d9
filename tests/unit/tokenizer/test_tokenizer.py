"""Text to ids and back."""

import io
import shutil
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import sentencepiece

from nmt_core.errors import ModelError
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.bulk import BulkEncoder
from nmt_core.tokenizer.tokenizer import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SOURCE_SPM_FILE,
    SPM_FILE,
    TARGET_SPM_FILE,
    UNK_ID,
    Tokenizer,
    Tokenizers,
)


@pytest.fixture(scope="module")
def tokenizer(tiny: dict[str, Artifact]) -> Tokenizer:
    return Tokenizer(tiny["tokenizer"].path / SPM_FILE)


def test_text_comes_back(tokenizer: Tokenizer, tiny: dict[str, Artifact]) -> None:
    pairs = pl.read_parquet(tiny["split"].path / "train-*.parquet")
    lines = [*pairs["source"], *pairs["target"]]
    assert tokenizer.decode(tokenizer.encode(lines)) == lines


def test_encoding_adds_no_mark(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(["I am a student.", "나는 학생이다.", ""])
    assert not {PAD_ID, UNK_ID, BOS_ID, EOS_ID} & {index for row in ids for index in row}
    assert ids[2] == []


def test_marks_leave_no_trace(tokenizer: Tokenizer) -> None:
    (ids,) = tokenizer.encode(["나는 학생이다."])
    assert tokenizer.decode([[BOS_ID, *ids, EOS_ID, PAD_ID, PAD_ID]]) == ["나는 학생이다."]


def test_an_unknown_character_shows(tokenizer: Tokenizer) -> None:
    (ids,) = tokenizer.encode(["漢"])
    assert UNK_ID in ids
    assert "\u2047" in tokenizer.decode([ids])[0]


def test_the_special_pieces_are_where_the_model_expects_them(tokenizer: Tokenizer) -> None:
    assert [tokenizer.piece(index) for index in range(4)] == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.mark.parametrize("content", [None, b"", b"not a model"])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / SPM_FILE
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ModelError, match="not a SentencePiece model") as caught:
        Tokenizer(file)
    assert str(file) in str(caught.value)


def test_a_model_with_other_special_ids(tmp_path: Path) -> None:
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(["some text to learn from"] * 20),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=30,
        model_type="bpe",
        minloglevel=2,
    )
    with pytest.raises(ModelError, match=r"have ids \(-1, 0, 1, 2\), not \(0, 1, 2, 3\)"):
        Tokenizer(tmp_path / SPM_FILE)


def test_half_of_a_pair_of_tokenizers(tiny: dict[str, Artifact], tmp_path: Path) -> None:
    shutil.copyfile(tiny["tokenizer"].path / SPM_FILE, tmp_path / SOURCE_SPM_FILE)
    with pytest.raises(ModelError, match=TARGET_SPM_FILE):
        Tokenizers.load(tmp_path)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_a_space_mark_in_the_text_comes_back(kind: str, tmp_path: Path) -> None:
    lines = ["a ▁ b", "▁▁x", "x▁", "a▁b c", "▁", "plain text"]
    trainer = {"user_defined_symbols": [], "model_type": kind, "vocab_size": 300, "hard_vocab_limit": False}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(["some text to learn from"] * 20), model_writer=model, byte_fallback=True,
        normalization_rule_name="identity", pad_id=PAD_ID, unk_id=UNK_ID, bos_id=BOS_ID, eos_id=EOS_ID, minloglevel=2,
        **trainer,
    )  # fmt: skip
    (tmp_path / SPM_FILE).write_bytes(model.getvalue())
    tokenizer = Tokenizer(tmp_path / SPM_FILE)

    ids = tokenizer.encode(lines)
    assert tokenizer.decode(ids) == lines
    assert BulkEncoder(tokenizer).encode(pa.array(lines)).to_pylist() == ids
