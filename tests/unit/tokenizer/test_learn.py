"""The `tokenizer` stage: pieces come from the training text alone, and a clear message comes if they cannot."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from nmt_core.config import PipelineConfig, TokenizerConfig
from nmt_core.errors import ConfigError, DataError
from nmt_core.store.artifacts import Artifact, Identity
from nmt_core.tokenizer.start import identity
from nmt_core.tokenizer.tokenizer import SOURCE_SPM_FILE, SPM_FILE, TARGET_SPM_FILE, Tokenizer, Tokenizers


def pieces(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.piece(index) for index in range(tokenizer.vocab_size)]


def split_of(folder: Path, source: list[str], target: list[str]) -> Artifact:
    folder.mkdir()
    pl.DataFrame({"source": source, "target": target}).write_parquet(folder / "train-00000.parquet")
    return Artifact("split", "0" * 32, folder)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_vocabulary_has_the_size_asked_for(
    tiny: dict[str, Artifact], learn: Any, tmp_path: Path, kind: str
) -> None:
    report = learn(tmp_path, kind=kind, vocab_size=700)
    assert report.vocab_size == report.items_out == Tokenizer(tmp_path / SPM_FILE).vocab_size == 700
    assert report.items_in == report.sampled_pairs == tiny["split"].report()["items_out"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_that_the_text_cannot_fill_names_the_largest_that_it_can(
    learn: Any, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size=50000 does not fit \d+ pairs") as caught:
        learn(tmp_path, kind=kind, vocab_size=50_000)
    supported = int(str(caught.value).split("set it to ")[1].split()[0])
    assert learn(tmp_path / "again", kind=kind, vocab_size=supported).vocab_size == supported


def test_a_vocabulary_too_small_for_the_characters_says_to_raise_it(learn: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size=64") as caught:
        learn(tmp_path, vocab_size=64)
    message = str(caught.value)
    assert "lower" not in message.replace("lower tokenizer.character_coverage", "")
    assert "character_coverage" in message


def test_the_same_text_and_seed_give_the_same_pieces(learn: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        learn(tmp_path / name, vocab_size=650)
    one, two = ((tmp_path / name / SPM_FILE).read_bytes() for name in ("one", "two"))
    assert one == two


def test_a_unigram_model_learns_from_a_smaller_sample_unless_the_recipe_names_one(
    learn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt_core.config.tokenizer._UNIGRAM_PAIRS", 400)
    bounded = learn(tmp_path, kind="unigram", vocab_size=600)
    assert bounded.sampled_pairs == pytest.approx(400, rel=0.2)
    assert bounded.measured_pairs == bounded.sampled_pairs < bounded.items_in
    assert learn(tmp_path, vocab_size=600).sampled_pairs == bounded.items_in
    assert learn(tmp_path, kind="unigram", vocab_size=600, sample_pairs=5_000_000).sampled_pairs == bounded.items_in


def test_how_many_pairs_are_sampled_where_the_recipe_does_not_say() -> None:
    def sampled(**options: Any) -> int:
        return TokenizerConfig.model_validate(options).pairs_to_sample

    assert (sampled(), sampled(kind="unigram")) == (5_000_000, 1_000_000)
    assert sampled(vocabularies="separate", target_kind="unigram") == 1_000_000
    assert sampled(kind="unigram", start_from="folder") == 5_000_000, "nothing is learnt"
    assert sampled(kind="unigram", sample_pairs=2_000_000) == 2_000_000
    with pytest.raises(ValidationError, match=r"sample_pairs=999 is less than 1,000: set it to 0"):
        sampled(sample_pairs=999)


def test_the_default_and_the_same_number_in_the_recipe_are_one_vocabulary() -> None:
    def identity_of(**options: Any) -> Identity:
        return identity(PipelineConfig.model_validate({"name": "a", "corpus": {"toy": {}}, "tokenizer": options}))

    assert identity_of() == identity_of(sample_pairs=5_000_000) != identity_of(sample_pairs=1_000_000)
    assert identity_of(kind="unigram") == identity_of(kind="unigram", sample_pairs=1_000_000)


def test_the_model_does_not_tell_where_it_was_made(learn: Any, tmp_path: Path) -> None:
    """The file is in every bundle, and the same text must give the same file on every machine."""
    learn(tmp_path)
    assert str(tmp_path).encode() not in (tmp_path / SPM_FILE).read_bytes()


def test_held_out_text_is_not_learnt_from(learn: Any, tmp_path: Path) -> None:
    """A character that only dev and test text contain gets no piece."""
    split = split_of(tmp_path / "split", ["abcdefghij klmnop"] * 50, ["qrstuv wxyz"] * 50)
    pl.DataFrame({"source": ["ñ"] * 50, "target": ["ñ"] * 50}).write_parquet(split.path / "dev.parquet")
    learn(tmp_path, split, vocab_size=64)
    assert "ñ" not in "".join(pieces(Tokenizer(tmp_path / SPM_FILE)))


def test_a_split_without_text_is_refused(learn: Any, tmp_path: Path) -> None:
    (tmp_path / "split").mkdir()
    with pytest.raises(DataError, match="run the stage `split` again"):
        learn(tmp_path, Artifact("split", "0" * 32, tmp_path / "split"))


def test_bytes_spell_what_the_pieces_cannot(learn: Any, tmp_path: Path) -> None:
    learn(tmp_path, vocab_size=1_000, byte_fallback=True)
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    assert tokenizer.decode(tokenizer.encode(["ñandú 漢字"])) == ["ñandú 漢字"]


def test_digits_stand_alone(tiny: dict[str, Artifact], learn: Any, tmp_path: Path) -> None:
    text = pl.read_parquet(tiny["split"].path / "train-*.parquet")
    split = split_of(tmp_path / "split", [f"{line} 1999 2024" for line in text["source"]], text["target"].to_list())
    found = {}
    for split_digits in (False, True):
        learn(tmp_path, split, vocab_size=700, split_digits=split_digits)
        found[split_digits] = [p for p in pieces(Tokenizer(tmp_path / SPM_FILE)) if sum(map(str.isdigit, p)) > 1]
    assert found[False]
    assert not found[True]


def test_a_joint_vocabulary_is_one_tokenizer_for_both_languages(learn: Any, tmp_path: Path) -> None:
    learn(tmp_path)
    tokenizers = Tokenizers.load(tmp_path)
    assert tokenizers.source is tokenizers.target
    assert tokenizers.source_vocab_size is None


def test_separate_vocabularies_know_their_own_language(tiny: dict[str, Artifact], learn: Any, tmp_path: Path) -> None:
    report = learn(tmp_path, vocabularies="separate", vocab_size=500, tags=("<BT>",), user_symbols=("__NUM__",))
    assert sorted(file.name for file in tmp_path.iterdir()) == [SOURCE_SPM_FILE, TARGET_SPM_FILE]
    assert report.items_out == 2 * report.vocab_size == 1_000
    tokenizers = Tokenizers.load(tmp_path)
    source, target = pieces(tokenizers.source), pieces(tokenizers.target)
    assert (tokenizers.source_vocab_size, len(target)) == (500, 500)
    assert not any("가" <= character <= "힣" for character in "".join(source))
    assert any("가" <= character <= "힣" for character in "".join(target))
    assert "__NUM__" in source
    assert "__NUM__" in target
    assert "\u2581<BT>" in source
    assert "\u2581<BT>" not in target, "a tag stands before source sentences"
    text = pl.read_parquet(tiny["split"].path / "train-*.parquet")
    for side, fit, file in (
        ("source", report.source, SOURCE_SPM_FILE),
        ("target", report.target, TARGET_SPM_FILE),
    ):
        tokenizer, lines = Tokenizer(tmp_path / file), text[side].to_list()
        ids = [index for row in tokenizer.encode(lines) for index in row]
        assert fit.tokens_per_word == pytest.approx(len(ids) / sum(len(line.split()) for line in lines), abs=1e-3)
        assert fit.characters_per_token == pytest.approx(sum(map(len, lines)) / len(ids), abs=1e-3)
        assert report.unused_pieces[file] == len(set(range(4, 500)) - set(ids))
    assert report.source != report.target
    assert list(report.unused_pieces) == [SOURCE_SPM_FILE, TARGET_SPM_FILE]
    assert report.unused_pieces[SOURCE_SPM_FILE] != report.unused_pieces[TARGET_SPM_FILE]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_symbol_is_one_piece_wherever_it_stands(learn: Any, tmp_path: Path, kind: str) -> None:
    learn(tmp_path, kind=kind, user_symbols=("__NUM__", 'a"b,c'), tags=("<BT>", "<BT>"))
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    lines = ['<BT> __NUM__ the__NUM__. __NUM__, a"b,c', "__NUM__"]
    found = [[tokenizer.piece(index) for index in row] for row in tokenizer.encode(lines)]
    assert found[0][:2] == ["\u2581<BT>", "\u2581__NUM__"]
    assert (found[0].count("\u2581__NUM__"), found[0].count("__NUM__")) == (2, 1)
    assert found[0][-1] == '\u2581a"b,c'
    assert found[1] == ["\u2581__NUM__"]
    assert tokenizer.decode(tokenizer.encode(lines)) == lines


@pytest.mark.parametrize("symbol", ["<s>", "</s>", "<pad>", "<unk>", "<0x41>"])
def test_a_symbol_spelt_as_a_special_piece_is_refused(learn: Any, tmp_path: Path, symbol: str) -> None:
    """Text that contains it would be read as the mark itself."""
    with pytest.raises(ConfigError, match=rf"tokenizer\.user_symbols: '{symbol}' is a special piece"):
        learn(tmp_path, user_symbols=(symbol,))


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_the_report_says_how_well_the_pieces_fit(
    tiny: dict[str, Artifact], learn: Any, tmp_path: Path, byte_fallback: bool
) -> None:
    text = pl.read_parquet(tiny["split"].path / "train-*.parquet")
    source = ["ñ 漢 student", *text["source"][1:]]
    split = split_of(tmp_path / "split", source, text["target"].to_list())
    report = learn(tmp_path, split, vocab_size=1_000, character_coverage=0.999, byte_fallback=byte_fallback)
    tokenizer = Tokenizer(tmp_path / SPM_FILE)
    encoded = {"source": tokenizer.encode(source), "target": tokenizer.encode(text["target"].to_list())}
    ids = [index for row in encoded["source"] for index in row]
    words, spaces = sum(len(line.split()) for line in source), sum(line.count(" ") for line in source)
    characters = sum(map(len, source))
    assert report.measured_pairs == len(source)
    assert report.source.tokens_per_word == pytest.approx(len(ids) / words, abs=1e-3)
    assert report.source.characters_per_token == pytest.approx(characters / len(ids), abs=1e-3)
    target_ids = [index for row in encoded["target"] for index in row]
    target_words = sum(len(line.split()) for line in text["target"])
    assert report.target.tokens_per_word == pytest.approx(len(target_ids) / target_words, abs=1e-3)
    assert report.target.characters_per_token == pytest.approx(
        sum(map(len, text["target"])) / len(target_ids), abs=1e-3
    )
    assert report.source.known_characters == pytest.approx(1 - 2 / (characters - spaces), abs=1e-6)
    if byte_fallback:
        assert report.source.known_tokens == 1
        assert report.source.byte_tokens == pytest.approx(5 / len(ids), abs=1e-6), "ñ is two bytes, 漢 three"
    else:
        assert report.source.known_tokens == pytest.approx(1 - 2 / len(ids), abs=1e-6)
        assert report.source.byte_tokens == 0
    used = {index for rows in encoded.values() for row in rows for index in row}
    never = {tokenizer.piece(index) for index in range(4, 1_000) if index not in used and not tokenizer.is_byte(index)}
    assert report.unused_pieces == {SPM_FILE: len(never)}
    assert len(report.unused_examples) == min(10, len(never))
    assert never.issuperset(report.unused_examples)
    assert len(report.longest_pieces[0]) >= len(report.longest_pieces[-1]) > 1
