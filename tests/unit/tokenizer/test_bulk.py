"""Many lines at once get the ids that each gets alone, whatever they hold."""

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.artifacts import Artifact
from nmt_core.tokenizer.bulk import BulkEncoder, words_are_independent
from nmt_core.tokenizer.tokenizer import SPM_FILE, Tokenizer

KNOBS: dict[str, dict[str, Any]] = {
    "bpe": {},
    "bpe with bytes and symbols": {
        "vocab_size": 1_000,
        "byte_fallback": True,
        "user_symbols": ("__NUM__", "{}", "ab"),
        "tags": ("<BT>",),
    },
    "bpe with a symbol over a space": {"user_symbols": ("a\u2581b",), "split_digits": True},
    "unigram": {"kind": "unigram", "user_symbols": ("__NUM__",)},
}

# Spaces of all sorts, SentencePiece's own mark, unknown characters in a row, symbols inside and outside words.
PARTS = [
    " ",
    "  ",
    "\u2581",
    "\u00a0",
    "\u3000",
    "\t",
    "\n",
    "\r",
    "\0",
    "\ufeff",
    "e\u0301",
    "漢字",
    "ñ",
    "🙂",
    "a",
    "b",
]
PARTS += ["<BT>", "__NUM__", "{}", "ab", "a b", "<s>", "</s>", "<unk>", "<0x41>", "the", "I am a student.", "나는", "7"]
LINES = st.lists(st.one_of(st.lists(st.sampled_from(PARTS)).map("".join), st.text(max_size=20)), max_size=8)


@pytest.fixture(scope="module")
def tokenizers(learn: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    folder = tmp_path_factory.mktemp("tokenizers")
    for name, knobs in KNOBS.items():
        learn(folder / name, **{"vocab_size": 700, **knobs})
    return {name: Tokenizer(folder / name / SPM_FILE) for name in KNOBS}


@pytest.mark.parametrize("name", KNOBS)
@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string()])
@settings(max_examples=150, deadline=None)
@given(lines=LINES)
def test_any_lines(tokenizers: dict[str, Tokenizer], name: str, text_type: pa.DataType, lines: list[str]) -> None:
    found = BulkEncoder(tokenizers[name]).encode(pa.array(lines, text_type))
    assert found.to_pylist() == tokenizers[name].encode(lines)


@pytest.mark.parametrize("name", KNOBS)
def test_real_lines(tokenizers: dict[str, Tokenizer], tiny: dict[str, Artifact], name: str) -> None:
    lines = pl.read_parquet(tiny["split"].path / "train-*.parquet")["target"]
    found = BulkEncoder(tokenizers[name]).encode(lines.to_arrow())
    assert found.to_pylist() == tokenizers[name].encode(lines.to_list())
    assert found.type == pa.list_(pa.uint16())


def test_words_are_encoded_alone_only_where_that_is_the_same(tokenizers: dict[str, Tokenizer]) -> None:
    found = [words_are_independent(tokenizer) for tokenizer in tokenizers.values()]
    assert found == [True, True, False, False]


def test_a_model_that_normalises_is_asked_line_by_line(tmp_path: Path) -> None:
    """Its rules may turn other characters into spaces."""
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(["some text to learn from"] * 20),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=30,
        model_type="bpe",
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    assert not words_are_independent(tokenizer)
    lines = ["some\u3000text", "to  learn\u00a0from "]
    assert BulkEncoder(tokenizer).encode(pa.array(lines)).to_pylist() == tokenizer.encode(lines)
