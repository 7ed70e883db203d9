"""Every kind of vocabulary with every pretokenizer: text becomes ids, and ids become the text again."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from nmt_core.config import TokenizerConfig
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.pretokenize import BOUNDARY, PRETOKENIZERS_FILE
from nmt_core.tokenizer.start import identity
from nmt_core.tokenizer.tokenizer import SPACE_MARK, UNK_ID, Tokenizer, Tokenizers

KINDS = ("bpe", "unigram", "char", "word")


def pieces(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.piece(index) for index in range(tokenizer.vocab_size)]


def split_of(folder: Path, source: list[str], target: list[str]) -> Artifact:
    folder.mkdir()
    pl.DataFrame({"source": source, "target": target}).write_parquet(folder / "train-00000.parquet")
    return Artifact("split", "0" * 32, folder)


def text_of(tiny: dict[str, Artifact], side: str) -> list[str]:
    lines: list[str] = pl.read_parquet(tiny["split"].path / "train-*.parquet")[side].to_list()
    return lines


@pytest.mark.parametrize("kind", KINDS)
def test_known_text_comes_back(tiny: dict[str, Artifact], learn: Any, tmp_path: Path, kind: str) -> None:
    report = learn(tmp_path, kind=kind, vocab_size=5_000 if kind in ("char", "word") else 700)
    tokenizers = Tokenizers.load(tmp_path)
    for side in ("source", "target"):
        lines = text_of(tiny, side)
        assert getattr(tokenizers, side).decode(getattr(tokenizers, side).encode(lines)) == lines
    assert report.source.known_tokens == report.target.known_tokens == 1
    assert report.vocab_size == tokenizers.target.vocab_size <= 5_000


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_no_piece_reaches_over_the_end_of_a_morpheme(
    tiny: dict[str, Artifact], learn: Any, tmp_path: Path, kind: str
) -> None:
    learn(tmp_path, kind=kind, vocab_size=700, pretokenize_target="morphemes")
    tokenizers = Tokenizers.load(tmp_path)
    assert tokenizers.source_vocab_size is None, "one vocabulary, though one side alone is cut"
    assert tokenizers.source.pretokenizer is None
    target, lines = tokenizers.target, text_of(tiny, "target")[:200]
    boundary = pieces(target).index(BOUNDARY)
    for line, ids in zip(lines, target.encode(lines), strict=True):
        assert boundary not in ids
        ends = {0}
        for index in ids:
            ends.add(max(ends) + len(target.piece(index).replace(SPACE_MARK, "")))
        cut = target.pretokenize([line])[0].replace(" ", BOUNDARY).split(BOUNDARY)
        starts = [sum(map(len, cut[:number])) for number in range(len(cut))]
        assert set(starts) <= ends
    assert target.decode(target.encode(lines)) == lines


def test_words_are_the_most_frequent_ones(learn: Any, tmp_path: Path) -> None:
    text = [f"the {'cat ' * 9}{'dog ' * number}{chr(97 + number) * 3}" for number in range(70)]
    split = split_of(tmp_path / "split", text, text)
    learn(tmp_path / "out", split, kind="word", vocab_size=64, user_symbols=("__NUM__",), tags=("<BT>",))
    tokenizer = Tokenizers.load(tmp_path / "out").source
    assert tokenizer.vocab_size == 64
    assert pieces(tokenizer)[4:7] == [f"{SPACE_MARK}dog", f"{SPACE_MARK}cat", f"{SPACE_MARK}the"]
    assert {f"{SPACE_MARK}__NUM__", f"{SPACE_MARK}<BT>"} <= set(pieces(tokenizer)), "in place of the rarest"
    assert tokenizer.has_unknown(["the cat", "the dogs", "<BT> __NUM__", ""]) == [False, True, False, False]
    (ids,) = tokenizer.encode(["the dogs"])
    assert ids[1:] == [UNK_ID]


def test_bytes_spell_a_word_that_is_not_known(learn: Any, tmp_path: Path) -> None:
    learn(tmp_path, kind="word", vocab_size=1_000, byte_fallback=True)
    tokenizer = Tokenizers.load(tmp_path).target
    for line in ("漢字 나는 ñ", "나는 ñandú 漢字", "ñ"):
        assert tokenizer.decode(tokenizer.encode([line])) == [line]
    assert tokenizer.has_unknown(["漢字 나는 ñ"]) == [False]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
@pytest.mark.parametrize("cut", ["none", "morphemes", "moses"])
def test_bytes_and_single_digits_with_every_kind(
    tiny: dict[str, Artifact], learn: Any, tmp_path: Path, kind: str, cut: str
) -> None:
    target = [f"{line} 1999 2024" for line in text_of(tiny, "target")]
    split = split_of(tmp_path / "split", text_of(tiny, "source"), target)
    options = {"kind": kind, "vocab_size": 1_000, "byte_fallback": True, "split_digits": True}
    learn(tmp_path / "out", split, pretokenize_target=cut, **options)
    tokenizer = Tokenizers.load(tmp_path / "out").target
    line = "ñandú 漢 1999"  # Moses' rules set Chinese characters apart for good
    assert tokenizer.decode(tokenizer.encode([line])) == [line]
    assert not [piece for piece in pieces(tokenizer) if sum(map(str.isdigit, piece)) > 1 and "0x" not in piece]


def test_each_side_has_its_own_kind_and_size(tiny: dict[str, Artifact], learn: Any, tmp_path: Path) -> None:
    options = {"target_kind": "char", "target_vocab_size": 5_000, "pretokenize_source": "moses"}
    learn(tmp_path, vocabularies="separate", vocab_size=300, **options)
    tokenizers = Tokenizers.load(tmp_path)
    assert tokenizers.source.vocab_size == tokenizers.source_vocab_size == 300
    assert max(map(len, pieces(tokenizers.target)[4:])) == 1
    assert BOUNDARY not in pieces(tokenizers.target)
    lines = ["The dog doesn't run, it sleeps."]
    assert tokenizers.source.pretokenize(lines) == ["The dog doesn 't run , it sleeps ."]


def test_what_cuts_the_text_is_taken_over_with_the_vocabulary(
    tiny: dict[str, Artifact], learn: Any, make_config: Any, tmp_path: Path
) -> None:
    learn(tmp_path / "theirs", pretokenize_target="morphemes", vocab_size=700)
    learn(tmp_path / "ours", start_from=str(tmp_path / "theirs"))
    assert (tmp_path / "ours" / PRETOKENIZERS_FILE).read_bytes() == (
        tmp_path / "theirs" / PRETOKENIZERS_FILE
    ).read_bytes()
    taken = identity(make_config(tokenizer={"start_from": str(tmp_path / "theirs")}))
    assert PRETOKENIZERS_FILE in taken["tokenizer"]["start_from"]


def test_the_version_of_a_dictionary_decides_the_vocabulary(make_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, cut = ({"pretokenize_source": kind} for kind in ("none", "moses"))
    assert "versions" not in identity(make_config(tokenizer=plain))["tokenizer"]
    before = identity(make_config(tokenizer=cut))
    monkeypatch.setattr("importlib.metadata.version", lambda name: "9.9")
    assert identity(make_config(tokenizer=cut)) != before
    german = make_config(tokenizer=cut, languages={"source": "de", "target": "ko"})
    assert identity(german) != identity(make_config(tokenizer=cut))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "word", "pretokenize_source": "morphemes"}, r"pretokenize_source=morphemes cuts words"),
        ({"kind": "word", "split_digits": True}, r"split_digits cuts words"),
        ({"target_kind": "char"}, r"set vocabularies=separate"),
        ({"target_vocab_size": 900}, r"set vocabularies=separate"),
        ({"vocabularies": "separate", "target_vocab_size": 9}, r"target_vocab_size=9 is less than 64"),
        (
            {"vocabularies": "separate", "target_kind": "word", "pretokenize_target": "kiwi"},
            r"pretokenize_target=kiwi cuts words",
        ),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TokenizerConfig(**options)
