"""Many lines at once get the same ids as each line alone, whatever they contain."""

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.bulk import BulkEncoder, Sampling, can_sample, words_are_independent
from nmt_core.tokenizer.tokenizer import SPM_FILE, Tokenizer, Tokenizers

OPTIONS: dict[str, dict[str, Any]] = {
    "bpe": {},
    "bpe with bytes and symbols": {
        "vocab_size": 1_000,
        "byte_fallback": True,
        "user_symbols": ("__NUM__", "{}", "ab"),
        "tags": ("<BT>",),
    },
    "bpe with a symbol over a space": {"user_symbols": ("a\u2581b",), "split_digits": True},
    "unigram": {"kind": "unigram", "user_symbols": ("__NUM__",)},
    "characters": {"kind": "char"},
    "words": {"kind": "word", "vocab_size": 200, "tags": ("<BT>",)},
    "bpe of morphemes": {"pretokenize_source": "morphemes", "user_symbols": ("__NUM__", "ab")},
    "unigram of morphemes": {"kind": "unigram", "pretokenize_source": "morphemes"},
    "bpe of Moses' words": {"pretokenize_source": "moses", "tags": ("<BT>",)},
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
    for name, options in OPTIONS.items():
        learn(folder / name, **{"vocab_size": 700, **options})
    return {name: Tokenizers.load(folder / name).source for name in OPTIONS}


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=150)
@given(lines=LINES)
def test_any_lines(tokenizers: dict[str, Tokenizer], name: str, lines: list[str]) -> None:
    expected = tokenizers[name].encode(lines)
    for text_type in (pa.string(), pa.large_string()):
        assert BulkEncoder(tokenizers[name]).encode(pa.array(lines, text_type)).to_pylist() == expected


@pytest.mark.parametrize("name", OPTIONS)
def test_real_lines(tokenizers: dict[str, Tokenizer], tiny: dict[str, Artifact], name: str) -> None:
    lines = pl.read_parquet(tiny["split"].path / "train-*.parquet")["target"]
    found = BulkEncoder(tokenizers[name]).encode(lines.to_arrow())
    assert found.to_pylist() == tokenizers[name].encode(lines.to_list())
    assert found.type == pa.list_(pa.uint16())


SAMPLED = ("bpe", "unigram", "bpe of morphemes", "unigram of morphemes")


@pytest.mark.parametrize("name", SAMPLED)
def test_segmentations_are_drawn_by_their_seed(
    tokenizers: dict[str, Tokenizer], tiny: dict[str, Artifact], name: str
) -> None:
    tokenizer, lines = tokenizers[name], pl.read_parquet(tiny["split"].path / "train-*.parquet")["target"].head(300)
    encoder = BulkEncoder(tokenizer)

    def drawn(*seed: int) -> list[list[int]]:
        ids: list[list[int]] = encoder.encode(lines.to_arrow(), Sampling(0.2, seed)).to_pylist()
        return ids

    best = encoder.encode(lines.to_arrow()).to_pylist()
    first, second = drawn(1, 0), drawn(1, 1)
    assert drawn(1, 0) == first, "whatever was drawn in between"
    assert encoder.encode(lines.to_arrow()).to_pylist() == best
    assert sum(one != other for one, other in zip(first, second, strict=True)) > 40
    assert sum(one != other for one, other in zip(first, best, strict=True)) > 40
    assert tokenizer.decode(first) == tokenizer.decode(second) == lines.to_list()


@pytest.mark.parametrize("name", OPTIONS)
def test_characters_and_words_are_cut_in_one_way(tokenizers: dict[str, Tokenizer], name: str) -> None:
    assert can_sample(tokenizers[name]) == (name not in ("characters", "words", "bpe with a symbol over a space"))


def test_words_are_encoded_alone_only_where_that_is_the_same(tokenizers: dict[str, Tokenizer]) -> None:
    found = [words_are_independent(tokenizer) for tokenizer in tokenizers.values()]
    assert found == [True, True, False, False, False, False, True, False, True]


def test_a_model_that_normalises_is_asked_line_by_line(tmp_path: Path) -> None:
    """The rules of the tokenizer may turn other characters into spaces."""
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


def enlarged(model_file: Path, vocab_size: int) -> tuple[Tokenizer, int]:
    """Make a trained model with as many added pieces as a training would take hours to find. Return their number.

    The added pieces are single Chinese characters from U+20000 on.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(model_file.read_bytes())
    learnt = len(model.pieces)
    for number in range(vocab_size - learnt):
        model.pieces.add(piece=chr(0x20000 + number), score=-1e6 - number)
    model_file.write_bytes(model.SerializeToString())
    return Tokenizer(model_file), learnt


def test_ids_beyond_16_bits_come_back_from_a_file(learn: Any, tmp_path: Path) -> None:
    learn(tmp_path, vocab_size=700)
    tokenizer, learnt = enlarged(tmp_path / SPM_FILE, (1 << 16) + 1_000)
    added = [1 << 16, (1 << 16) + 999, (1 << 16) - 1, learnt]
    lines = ["I am a student.", "".join(chr(0x20000 + number - learnt) for number in added), "", chr(0x20000)]

    ids = BulkEncoder(tokenizer).encode(pa.array(lines))
    pq.write_table(pa.table({"source": ids}), tmp_path / "ids.parquet", use_dictionary=False)
    read = pq.read_table(tmp_path / "ids.parquet")["source"].combine_chunks()

    assert ids.type == read.type == pa.list_(pa.uint32())
    assert read.to_pylist() == tokenizer.encode(lines)
    assert read.to_pylist()[1][-4:] == added
    assert tokenizer.decode(read.to_pylist()) == lines


@pytest.mark.parametrize(("vocab_size", "id_type"), [(1 << 16, pa.uint16()), ((1 << 16) + 1, pa.uint32())])
def test_ids_are_as_narrow_as_they_can_be(learn: Any, tmp_path: Path, vocab_size: int, id_type: pa.DataType) -> None:
    learn(tmp_path, vocab_size=700)
    tokenizer, learnt = enlarged(tmp_path / SPM_FILE, vocab_size)

    ids = BulkEncoder(tokenizer).encode(pa.array([chr(0x20000 + vocab_size - learnt - 1)]))

    assert ids.type == pa.list_(id_type)
    assert ids.to_pylist()[0][-1] == vocab_size - 1
