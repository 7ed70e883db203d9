"""An existing vocabulary is extended by a new language: older ids stay, and older text is cut as before."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from nmt_core.config import PipelineConfig
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.stage import Job, Resources, SilentReporter
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.extend import Extension, extended, read_extensions
from nmt_core.tokenizer.learn import TokenizerReport, run
from nmt_core.tokenizer.start import identity
from nmt_core.tokenizer.tokenizer import SPM_FILE, UNK_ID, Tokenizer

GREEK = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβξδεφγηιϊκλμνοπθρστυωΩχψζ")
LATIN = str.maketrans("abcdefghijklmnopqrstuvwxyz", "sdfghjklqwertyuiopzxcvbnma")
PAIRS = ("en-ko", "ko-en")


@pytest.fixture
def learn_many(tiny: dict[str, Artifact], tmp_path: Path) -> Any:
    """Run the stage on the tiny text in both directions, and on its English in another alphabet if asked."""

    def learn(name: str, alphabet: dict[int, str] | None = None, **options: Any) -> TokenizerReport:
        text = pl.read_parquet(tiny["split"].path / "train-*.parquet").select("source", "target").head(400)
        sides = {"en-ko": ("source", "target"), "ko-en": ("target", "source")}
        parts = [
            text.select(pl.lit(pair).alias("pair"), source=pl.col(source), target=pl.col(target))
            for pair, (source, target) in sides.items()
        ]
        if alphabet:
            written = [line.lower().translate(alphabet) for line in text["source"]]
            parts.append(text.select(pl.lit("en-el").alias("pair"), source="source", target=pl.Series(written)))
        split = Artifact("split", "0" * 32, tmp_path / f"split of {name}")
        split.path.mkdir()
        pl.concat(parts).write_parquet(split.path / "train-00000.parquet")
        out = tmp_path / name
        out.mkdir()
        return run(recipe(pairs=(*PAIRS, "en-el") if alphabet else PAIRS, **options), {"split": split}, out, job())

    return learn


def job() -> Job:
    return Job(SilentReporter(), Resources())


def recipe(pairs: tuple[str, ...] = PAIRS, **options: Any) -> PipelineConfig:
    files = {"source": "text.en", "target": "text.el"}
    sets = {role: [{"name": role, "pairs": pairs[:1]} | files] for role in ("dev", "test")}
    return PipelineConfig.model_validate(
        {
            "name": "extended",
            "languages": {"pairs": pairs},
            "corpus": sets | {"train": [{"name": pair, "pairs": [pair]} | files for pair in pairs]},
            "tokenizer": options,
        }
    )


def pieces(folder: Path) -> list[tuple[str, float, int]]:
    model = sentencepiece_model_pb2.ModelProto.FromString((folder / SPM_FILE).read_bytes())
    return [(piece.piece, piece.score, piece.type) for piece in model.pieces]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_another_script_is_learned_and_older_text_is_cut_as_before(learn_many: Any, tmp_path: Path, kind: str) -> None:
    learn_many("older", kind=kind, vocab_size=600)
    report = learn_many("longer", GREEK, start_from=str(tmp_path / "older"), added_pieces={"el": 100})

    older, longer = pieces(tmp_path / "older"), pieces(tmp_path / "longer")
    assert longer[: len(older)] == older, "the older pieces keep their ids and scores"
    (token, *new), normal = longer[len(older) :], sentencepiece_model_pb2.ModelProto.SentencePiece.NORMAL
    assert token[0] == "<2el>"
    assert Tokenizer(tmp_path / "longer" / SPM_FILE).is_control(len(older))
    assert report.added_pieces == {SPM_FILE: len(new) + 1}
    assert len(new) == 100 if kind == "bpe" else 20 < len(new) <= 100
    assert max(score for _, score, _ in new) <= min(score for _, score, of in older if of == normal)

    fits = {(fit.language, fit.side): fit for fit in report.by_language}
    assert fits["el", "target"].known_characters == 1
    assert fits["el", "target"].cut_as_before == 0
    assert {fit.cut_as_before for key, fit in fits.items() if key[0] != "el"} == {1.0}
    if kind != "char":
        assert fits["el", "target"].characters_per_token > 1.5


def cuts_of(folder: Path, lines: list[str]) -> list[set[int]]:
    """Return the places at which each line is cut, in characters."""
    tokenizer = Tokenizer(folder / SPM_FILE)
    cuts = []
    for ids in tokenizer.encode(lines):
        lengths = [len(tokenizer.piece(index)) for index in ids]
        cuts.append(set(np.cumsum(lengths).tolist()))
    return cuts


@pytest.mark.parametrize(("kind", "least"), [("bpe", 0.6), ("unigram", 0.9)])
def test_in_a_language_of_the_same_script_older_pieces_are_joined_at_most(
    tiny: dict[str, Artifact], learn_many: Any, tmp_path: Path, kind: str, least: float
) -> None:
    learn_many("older", kind=kind, vocab_size=600)
    without = learn_many("without", LATIN, start_from=str(tmp_path / "older"), added_pieces={"el": 0})
    report = learn_many("longer", LATIN, start_from=str(tmp_path / "older"), added_pieces={"el": 100})
    fits, before = (
        {(fit.language, fit.side): fit for fit in one.by_language if fit.cut_as_before is not None}
        for one in (report, without)
    )
    assert fits["el", "target"].characters_per_token > 1.2 * before["el", "target"].characters_per_token
    assert least < fits["en", "source"].cut_as_before < 1
    assert fits["ko", "source"].cut_as_before > 0.99
    assert {fit.cut_as_before for fit in before.values()} == {1.0}
    assert without.added_pieces == {SPM_FILE: 1}
    lines = pl.read_parquet(tiny["split"].path / "train-*.parquet")["source"].head(400).to_list()
    pairs = list(zip(cuts_of(tmp_path / "longer", lines), cuts_of(tmp_path / "older", lines), strict=True))
    coarser = sum(after <= before for after, before in pairs)
    assert coarser == len(pairs) if kind == "bpe" else coarser > least * len(pairs)


def test_new_pieces_name_the_older_pieces_that_spelled_them(learn_many: Any, tmp_path: Path) -> None:
    learn_many("older", vocab_size=600)
    learn_many("longer", LATIN, start_from=str(tmp_path / "older"), added_pieces={"el": 60})
    extension = read_extensions(tmp_path / "longer")[SPM_FILE]
    older, longer = pieces(tmp_path / "older"), pieces(tmp_path / "longer")
    assert extension.size == len(older)
    token, *cuts = extension.cuts
    assert [older[index][0] for index in token] == ["<2ko>", "<2en>"]
    assert len(cuts) == 60
    for (piece, _, _), cut in zip(longer[len(older) + 1 :], cuts, strict=True):
        assert len(cut) > 1
        assert "".join(older[index][0] for index in cut) == piece

    learn_many("greek", GREEK, start_from=str(tmp_path / "older"), added_pieces={"el": 60})
    cuts = read_extensions(tmp_path / "greek")[SPM_FILE].cuts[1:]
    assert () in cuts, "the older vocabulary knows no letter of it"
    assert not any(UNK_ID in cut for cut in cuts)


def test_a_vocabulary_of_words_gets_the_words_of_the_new_text() -> None:
    def learned(lines: list[str]) -> bytes:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(lines), model_writer=model, model_type="word", vocab_size=20, pad_id=0, unk_id=1,
            bos_id=2, eos_id=3, hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        return model.getvalue()

    older = learned(["the cat", "the dog"])
    longer, extension = extended(older, [], [(2, lambda: ["η γάτα the", "η γάτα", "σκύλος"])], 1.0)
    model = sentencepiece.SentencePieceProcessor(model_proto=longer)
    assert model.EncodeAsPieces("the γάτα η cat") == ["▁the", "▁γάτα", "▁η", "▁cat"]
    assert UNK_ID in model.EncodeAsIds("σκύλος"), "two pieces were asked for, and it is the third"
    assert isinstance(extension, Extension)


def test_without_added_pieces_a_new_language_is_refused_with_the_option(learn_many: Any, tmp_path: Path) -> None:
    learn_many("older", vocab_size=600)
    with pytest.raises(ConfigError, match=r"no piece '<2el>' .* tokenizer\.added_pieces, such as {el: 1000}"):
        learn_many("longer", GREEK, start_from=str(tmp_path / "older"))


def test_the_option_needs_a_vocabulary_and_languages_of_the_recipe() -> None:
    with pytest.raises(ValueError, match="added_pieces names el, but there is no vocabulary to extend: set start_from"):
        recipe(added_pieces={"el": 5})
    with pytest.raises(ValueError, match=r"tokenizer\.added_pieces: fr is not in languages\.pairs"):
        recipe(start_from="older", added_pieces={"fr": 5})
    with pytest.raises(ConfigError, match=r"tokenizer\.added_pieces has no effect without languages\.pairs"):
        load_recipe("quickstart", ["tokenizer.start_from=older", "tokenizer.added_pieces.ko=5"])


def test_what_is_added_counts_and_nothing_else_changes(learn_many: Any, tmp_path: Path) -> None:
    learn_many("older", vocab_size=600)
    start = {"start_from": str(tmp_path / "older")}
    plain, some, more = (
        identity(recipe(**start, **options))
        for options in ({}, {"added_pieces": {"ko": 5}}, {"added_pieces": {"ko": 6}})
    )
    assert "added_pieces" not in str(plain)
    assert some != more
    assert identity(recipe(**start, character_coverage=0.99)) == plain
    assert identity(recipe(**start, added_pieces={"ko": 5}, character_coverage=0.99)) != some
