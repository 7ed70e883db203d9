"""The stage `clean`, from text with planted dirt to shards and a report that adds up."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.corpus import clean as stage
from nmt_core.corpus.funnel import CleanReport
from nmt_core.errors import DataError, StageError
from nmt_core.store.artifacts import Artifact

Pair = tuple[str, str]
WriteCorpus = Callable[[str, Sequence[Pair]], ParallelCorpus]
Recipe = Callable[..., PipelineConfig]
RunUntil = Callable[..., dict[str, Artifact]]

DIRT = {
    "empty": ("", "Nichts."),
    "broken_encoding": ("The c\ufffdt sleeps.", "Die Katze schläft."),
    "too_many_words": ("very " * 200 + "long", "sehr lang"),
    "long_word": ("x" * 50, "Ein Wort ohne Ende."),
    "few_letters": ("12 + 34 = 46 !", "Eine Rechnung."),
    "copy": ("Just a copy.", "just a copy"),
    "wrong_script": ("The cat sleeps now.", "Кошка сейчас спит."),
    "length_ratio": ("No.", "Das kann man so wirklich nicht sagen."),
    "wrong_language": ("The cat sleeps all day long.", "Le chat dort toute la journée."),
    "duplicate": ("THE DOG SEES THE MOUSE.", "Das Hund sieht die Maus."),
    "held_out": ("the dog sees the horse.", "Etwas anderes."),
}
HELD_OUT = 4  # of the sound pairs; the others are trained on
TEST = [
    ("The dog sees the horse.", "Das Hund sieht die Pferd."),
    ("The dog sees the bird.", "Das Hund sieht die Vogel."),
]


@pytest.fixture
def dirty(write_corpus: WriteCorpus, recipe: Recipe, sound: Sequence[Pair]) -> PipelineConfig:
    """Make a recipe whose training text has one pair of each kind of dirt after the sound pairs."""
    return recipe(
        corpus={
            "train": [
                write_corpus("news", [*sound[HELD_OUT:], *DIRT.values()]),
                write_corpus("web", [("Caf&eacute; Q.", "Café Q")]),
            ],
            "dev": [write_corpus("dev", sound[:2])],
            "test": [write_corpus("main", sound[2:HELD_OUT]), write_corpus("other", sound[:1])],
            "licence": "CC0",
        }
    )


def read(artifact: Artifact, files: str) -> pl.DataFrame:
    return pl.read_parquet(sorted(artifact.path.glob(files)))


def test_each_kind_of_dirt_goes_for_its_reason(
    dirty: PipelineConfig, run_until: RunUntil, sound: Sequence[Pair]
) -> None:
    clean = run_until(dirty, "clean")["clean"]

    dropped = read(clean, stage.DROPPED_FILES)
    assert dropped.columns == ["corpus", "line", "reason", "value", "source", "target"]
    news = dropped.filter(corpus="news").select("reason", "line").rows()
    assert news == [(reason, line) for line, reason in enumerate(DIRT, start=len(sound) - HELD_OUT + 1)]
    assert dropped.filter(corpus="web").select("reason", "line").rows() == [("copy", 1)]
    values = dict(dropped.select("reason", "value").rows())
    assert (values["duplicate"], values["held_out"], values["too_many_words"]) == ("news:1", "test/main", "201")


def test_what_is_kept_is_every_other_pair_in_order(
    dirty: PipelineConfig, run_until: RunUntil, sound: Sequence[Pair]
) -> None:
    train = read(run_until(dirty, "clean")["clean"], stage.TRAIN_FILES)

    assert train.columns == ["source", "target", "corpus", "line", "licence"]
    assert train.select("source", "target").rows() == sound[HELD_OUT:]
    assert train["line"].to_list() == list(range(1, len(sound) - HELD_OUT + 1))
    assert set(train["licence"]) == {"CC0"}


def test_the_report_adds_up(dirty: PipelineConfig, run_until: RunUntil, sound: Sequence[Pair]) -> None:
    clean = run_until(dirty, "clean")["clean"]
    report = CleanReport.model_validate(clean.report())

    assert report.items_in == len(sound) - HELD_OUT + len(DIRT) + 1
    assert report.items_in == report.items_out + sum(report.dropped.values())
    assert report.dropped == {"copy": 2} | dict.fromkeys(sorted(DIRT.keys() - {"copy"}), 1)
    assert report.held_out == {"test/main": 1}
    assert {sample.reason for sample in report.samples} == set(DIRT)
    assert [(row.corpus, row.reason) for row in report.funnel if row.corpus == "web"] == [
        ("web", "read"),
        ("web", "copy"),
        ("web", "kept"),
    ]
    assert report.source_languages["en"] >= len(sound) - HELD_OUT
    assert report.target_languages["fr"] == 1
    assert not (clean.path / ".scratch").exists()
    for measure in {row.measure for row in report.histograms}:
        rows = [row for row in report.histograms if row.measure == measure]
        without = 1 if "/" in measure else 0  # a pair with an empty side has no ratio
        assert sum(row.before for row in rows) == report.items_in - without
        assert sum(row.after for row in rows) == report.items_out


def test_repaired_pairs_are_kept_and_counted(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    rows = [("A cafÃ© is here.", "Ein Café &amp; mehr ist hier."), ("A sound pair.", "Ein gutes Paar.")]
    clean = run_until(recipe(corpus={"train": [write_corpus("news", rows)]}), "clean")["clean"]

    assert read(clean, stage.TRAIN_FILES).row(0)[:2] == ("A café is here.", "Ein Café & mehr ist hier.")
    assert clean.report()["repaired"] == 1


def test_strange_characters_inside_lines_break_no_pair(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, sound: Sequence[Pair]
) -> None:
    rows = [('A "quote\u2028and\rmore.', "Ein Zitat\u2029und\tmehr."), *sound]
    clean = run_until(recipe(corpus={"train": [write_corpus("news", rows)]}), "clean")["clean"]

    train = read(clean, stage.TRAIN_FILES)
    assert train.height == len(rows)
    assert train.row(0)[:2] == ('A "quote and more.', "Ein Zitat und mehr.")


def test_rows_that_cannot_be_read_are_dropped_for_a_reason(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, sound: Sequence[Pair]
) -> None:
    files = write_corpus("news", sound)
    lines = Path(files.source).read_bytes().splitlines(keepends=True)
    lines[3], lines[5], lines[7] = b"The d\xffg.\n", b"The\x00dog.\n", b"dog " * 50_000 + b"\n"
    Path(files.source).write_bytes(b"".join(lines))
    clean = run_until(recipe(corpus={"train": [files]}), "clean")["clean"]

    dropped = read(clean, stage.DROPPED_FILES).select("line", "reason").rows()
    assert dropped == [(4, "invalid_utf8"), (6, "null_byte"), (8, "too_long_line")]
    assert read(clean, stage.TRAIN_FILES).height == len(sound) - 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [("The same.", "the same")] * 3,
            r"none of the 3 pairs is left; 'copy' dropped most \(3\).*news, line \d.*clean.drop_copies",
        ),
        ([("", "x"), ("", "y"), ("a b", "a b")], r"'empty' dropped most \(2\).*check corpus.train"),
        (TEST, r"'held_out' dropped most \(2\).*clean.decontaminate"),
    ],
)
def test_an_empty_corpus_after_cleaning_says_what_to_change(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil, rows: list[Pair], message: str
) -> None:
    config = recipe(corpus={"train": [write_corpus("news", rows)], "test": [write_corpus("main", TEST)]})

    with pytest.raises(StageError, match=message):
        run_until(config, "clean")


def too_long(files: ParallelCorpus) -> None:
    with Path(files.target).open("a", encoding="utf-8") as file:
        file.write("Eine Zeile zu viel.\n")


def no_text(files: ParallelCorpus) -> None:
    Path(files.target).write_bytes(b"")


def swapped(files: ParallelCorpus) -> None:
    source, target = Path(files.source), Path(files.target)
    sides = source.read_bytes(), target.read_bytes()
    target.write_bytes(sides[0])
    source.write_bytes(sides[1])


BAD = [
    (too_long, r"corpus bad .*36.*37"),
    (no_text, r"corpus bad.*empty"),
    (swapped, r"corpus bad: in \d\d of 36 sampled pairs, the source side is in the target language.*swap"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD, ids=[spoil.__name__ for spoil, _ in BAD])
def test_a_bad_corpus_stops_the_stage_or_is_skipped_as_the_recipe_says(
    write_corpus: WriteCorpus,
    recipe: Recipe,
    run_until: RunUntil,
    sound: Sequence[Pair],
    spoil: Callable[[ParallelCorpus], None],
    message: str,
) -> None:
    bad, good = write_corpus("bad", sound), write_corpus("good", [(f"{s} Yes.", f"{t} Ja.") for s, t in sound])
    spoil(bad)

    with pytest.raises(DataError, match=message):
        run_until(recipe(corpus={"train": [bad, good]}), "clean", "failing")
    clean = run_until(recipe(corpus={"train": [bad, good], "on_bad_corpus": "skip"}), "clean")["clean"]

    report = CleanReport.model_validate(clean.report())
    assert list(report.skipped) == ["bad"]
    assert report.items_in == report.items_out == len(sound)
    assert set(read(clean, stage.TRAIN_FILES)["corpus"]) == {"good"}
    with pytest.raises((StageError, DataError), match=r"skipped|could be fetched"):
        run_until(recipe(corpus={"train": [bad], "on_bad_corpus": "skip"}), "clean")


@pytest.mark.parametrize(
    ("options", "is_refused"),
    [({}, True), ({"max_other_language_share": 1}, False), ({"min_language_probability": 0}, False)],
)
def test_a_corpus_in_another_language_is_refused_as_a_whole(
    write_corpus: WriteCorpus,
    recipe: Recipe,
    run_until: RunUntil,
    sound: Sequence[Pair],
    options: dict[str, Any],
    is_refused: bool,
) -> None:
    french = [
        (source, f"Le numéro {number} est dans la maison avec les enfants.") for number, (source, _) in enumerate(sound)
    ]
    train = [write_corpus("bad", french), write_corpus("good", sound)]
    config = recipe(corpus={"train": train, "on_bad_corpus": "skip"}, clean=options)
    report = CleanReport.model_validate(run_until(config, "clean")["clean"].report())

    message = report.skipped.get("bad", "")
    assert bool(message) == is_refused
    assert ("36 of 36 target sides are identified as 'fr', not 'de'" in message) == is_refused


@pytest.mark.parametrize(
    ("options", "is_refused"),
    [
        ({"max_swapped_share": 0.9}, True),
        ({"max_swapped_share": 1}, False),
        ({"min_language_probability": 0}, False),
        ({"overrides": [{"corpus": "bad", "min_language_probability": 0}]}, False),
        ({"overrides": [{"corpus": "other", "min_language_probability": 0}]}, True),
    ],
)
def test_the_recipe_says_whether_swapped_languages_are_looked_for(
    write_corpus: WriteCorpus,
    recipe: Recipe,
    run_until: RunUntil,
    sound: Sequence[Pair],
    options: dict[str, Any],
    is_refused: bool,
) -> None:
    bad, other = write_corpus("bad", sound), write_corpus("other", [(f"{s} Yes.", f"{t} Ja.") for s, t in sound])
    swapped(bad)
    config = recipe(corpus={"train": [bad, other], "on_bad_corpus": "skip"}, clean=options)
    report = CleanReport.model_validate(run_until(config, "clean")["clean"].report())

    assert list(report.skipped) == (["bad"] if is_refused else [])
    assert ("clean.max_swapped_share" in report.skipped.get("bad", "")) == is_refused
    assert report.items_in == len(sound) * (1 if is_refused else 2)
