import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt_core.artifacts import Artifact, describe_outputs
from nmt_core.config import ParallelCorpus, PipelineConfig
from nmt_core.corpus import clean as stage
from nmt_core.corpus.funnel import CleanReport
from nmt_core.corpus.sources import INDEX, CorpusIndex, StoredCorpus, StoredFile
from nmt_core.errors import DataError, StageError
from nmt_core.stage import Job, Resources, SilentReporter
from nmt_core.workers import InProcess, LocalWorkers, Workers

Pair = tuple[str, str]
WriteCorpus = Callable[[str, Sequence[Pair]], ParallelCorpus]
Recipe = Callable[..., PipelineConfig]
RunUntil = Callable[..., dict[str, Artifact]]

WORDS = [("dog", "Hund"), ("cat", "Katze"), ("horse", "Pferd"), ("bird", "Vogel"), ("mouse", "Maus"), ("cow", "Kuh")]
SOUND = [(f"The {a} sees the {b}.", f"Das {x} sieht die {y}.") for a, x in WORDS for b, y in WORDS]
DEV, TEST = SOUND[:2], SOUND[2:4]
TRAIN = SOUND[4:]
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
    "duplicate": (TRAIN[0][0].upper(), TRAIN[0][1]),
    "held_out": (TEST[0][0].lower(), "Etwas anderes."),
}


@pytest.fixture
def dirty(write_corpus: WriteCorpus, recipe: Recipe) -> PipelineConfig:
    """A recipe whose training text holds one pair of each kind of dirt, after the sound ones."""
    return recipe(
        corpus={
            "train": [
                write_corpus("news", [*TRAIN, *DIRT.values()]),
                write_corpus("web", [("Caf&eacute; Q.", "Café Q")]),
            ],
            "dev": [write_corpus("dev", DEV)],
            "test": [write_corpus("main", TEST), write_corpus("other", SOUND[:1])],
            "licence": "CC0",
        }
    )


def read(artifact: Artifact, files: str) -> pl.DataFrame:
    return pl.read_parquet(sorted(artifact.path.glob(files)))


def test_each_kind_of_dirt_goes_for_its_reason(dirty: PipelineConfig, run_until: RunUntil) -> None:
    clean = run_until(dirty, "clean")["clean"]

    dropped = read(clean, stage.DROPPED_FILES)
    assert dropped.columns == ["corpus", "line", "reason", "value", "source", "target"]
    news = dropped.filter(corpus="news").select("reason", "line").rows()
    assert news == [(reason, line) for line, reason in enumerate(DIRT, start=len(TRAIN) + 1)]
    assert dropped.filter(corpus="web").select("reason", "line").rows() == [("copy", 1)]
    values = dict(dropped.select("reason", "value").rows())
    assert (values["duplicate"], values["held_out"], values["too_many_words"]) == ("news:1", "test/main", "201")


def test_what_is_kept_is_every_other_pair_in_order(dirty: PipelineConfig, run_until: RunUntil) -> None:
    train = read(run_until(dirty, "clean")["clean"], stage.TRAIN_FILES)

    assert train.columns == ["source", "target", "corpus", "line", "licence"]
    assert train.select("source", "target").rows() == TRAIN
    assert train["line"].to_list() == list(range(1, len(TRAIN) + 1))
    assert set(train["licence"]) == {"CC0"}


def test_the_report_adds_up(dirty: PipelineConfig, run_until: RunUntil) -> None:
    clean = run_until(dirty, "clean")["clean"]
    report = CleanReport.model_validate(clean.report())

    assert report.items_in == len(TRAIN) + len(DIRT) + 1
    assert report.items_in == report.items_out + sum(report.dropped.values())
    assert report.dropped == {"copy": 2} | dict.fromkeys(sorted(DIRT.keys() - {"copy"}), 1)
    assert report.held_out == {"test/main": 1}
    assert {sample.reason for sample in report.samples} == set(DIRT)
    assert [(row.corpus, row.reason) for row in report.funnel if row.corpus == "web"] == [
        ("web", "read"),
        ("web", "copy"),
        ("web", "kept"),
    ]
    assert report.source_languages["en"] >= len(TRAIN)
    assert report.target_languages["fr"] == 1
    assert not (clean.path / ".scratch").exists()


def test_repaired_pairs_are_kept_and_counted(write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil) -> None:
    rows = [("A cafÃ© is here.", "Ein Café &amp; mehr ist hier."), ("A sound pair.", "Ein gutes Paar.")]
    clean = run_until(recipe(corpus={"train": [write_corpus("news", rows)]}), "clean")["clean"]

    assert read(clean, stage.TRAIN_FILES).row(0)[:2] == ("A café is here.", "Ein Café & mehr ist hier.")
    assert clean.report()["repaired"] == 1


def test_strange_characters_inside_lines_break_no_pair(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    rows = [('A "quote\u2028and\rmore.', "Ein Zitat\u2029und\tmehr."), *SOUND]
    clean = run_until(recipe(corpus={"train": [write_corpus("news", rows)]}), "clean")["clean"]

    train = read(clean, stage.TRAIN_FILES)
    assert train.height == len(rows)
    assert train.row(0)[:2] == ('A "quote and more.', "Ein Zitat und mehr.")


def test_rows_that_cannot_be_read_are_dropped_for_a_reason(
    write_corpus: WriteCorpus, recipe: Recipe, run_until: RunUntil
) -> None:
    files = write_corpus("news", SOUND)
    lines = Path(files.source).read_bytes().splitlines(keepends=True)
    lines[3], lines[5], lines[7] = b"The d\xffg.\n", b"The\x00dog.\n", b"dog " * 50_000 + b"\n"
    Path(files.source).write_bytes(b"".join(lines))
    clean = run_until(recipe(corpus={"train": [files]}), "clean")["clean"]

    dropped = read(clean, stage.DROPPED_FILES).select("line", "reason").rows()
    assert dropped == [(4, "invalid_utf8"), (6, "null_byte"), (8, "too_long_line")]
    assert read(clean, stage.TRAIN_FILES).height == len(SOUND) - 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [("Same.", "same")] * 3,
            r"none of the 3 pairs is left; 'copy' dropped most \(3\).*news, line \d.*clean.drop_copies",
        ),
        ([("", "x"), ("", "y"), ("a", "a")], r"'empty' dropped most \(2\).*check corpus.train"),
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
    (swapped, r"corpus bad: in \d\d of 36 pairs that were looked at the source side is in the target language.*swap"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD, ids=[spoil.__name__ for spoil, _ in BAD])
def test_a_bad_corpus_stops_the_stage_or_is_skipped_as_the_recipe_says(
    write_corpus: WriteCorpus,
    recipe: Recipe,
    run_until: RunUntil,
    spoil: Callable[[ParallelCorpus], None],
    message: str,
) -> None:
    bad, good = write_corpus("bad", SOUND), write_corpus("good", [(f"{s} Yes.", f"{t} Ja.") for s, t in SOUND])
    spoil(bad)

    with pytest.raises(DataError, match=message):
        run_until(recipe(corpus={"train": [bad, good]}), "clean", "failing")
    clean = run_until(recipe(corpus={"train": [bad, good], "on_bad_corpus": "skip"}), "clean")["clean"]

    report = CleanReport.model_validate(clean.report())
    assert list(report.skipped) == ["bad"]
    assert report.items_in == report.items_out == len(SOUND)
    assert set(read(clean, stage.TRAIN_FILES)["corpus"]) == {"good"}
    with pytest.raises((StageError, DataError), match=r"skipped|could be had"):
        run_until(recipe(corpus={"train": [bad], "on_bad_corpus": "skip"}), "clean")


def download_of(folder: Path, corpora: dict[tuple[str, str], list[Pair]]) -> Artifact:
    """A download artifact with these pairs by role and name, as Parquet files."""
    stored = []
    for (role, name), pairs in corpora.items():
        path = folder / role / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(pairs, schema={"en": pl.String, "de": pl.String}, orient="row").write_parquet(path)
        file = StoredFile(file=f"{role}/{path.name}", sha256="", bytes=0, address=str(path), side="both", member="")
        stored.append(
            StoredCorpus.model_validate(
                {"role": role, "name": name, "licence": "CC0", "citation": "", "url": "", "files": [file]}
                | {"source_column": "", "target_column": ""}
            )
        )
    index = CorpusIndex.model_validate({"corpora": stored, "on_bad_corpus": "fail", "skipped": {}})
    (folder / INDEX).write_text(index.model_dump_json(), encoding="utf-8")
    return Artifact("download", "0", folder)


def clean(config: PipelineConfig, download: Artifact, out: Path, workers: Workers) -> CleanReport:
    out.mkdir()
    job = Job(SilentReporter(), Resources(), workers)
    return stage.run(config, {"download": download}, out, job)


def sentences(count: int) -> Iterator[Pair]:
    """Pairs of which every fifth is a copy of an earlier one, and every seventh has a fault."""
    for number in range(count):
        one, two = divmod(number - number % 5 if number % 5 == 4 else number, 600)
        sound = (f"Number {one} and number {two} are here.", f"Nummer {one} und Nummer {two} sind hier.")
        yield (sound[0], "") if number % 7 == 3 else sound


def test_the_same_bytes_whatever_the_number_of_workers(tmp_path: Path, recipe: Recipe) -> None:
    config = recipe(corpus={"toy": {}}, clean={"shard_pairs": 1_000, "max_per_target": 1})
    corpora = {("train", "news"): list(sentences(3_500)), ("train", "web"): list(sentences(2_200))}
    download = download_of(tmp_path / "download", corpora | {("test", "main"): list(sentences(3))})
    made = {"one": clean(config, download, tmp_path / "one", InProcess())}
    for name, count in (("two", 2), ("four", 4)):
        with LocalWorkers(count) as workers:
            made[name] = clean(config, download, tmp_path / name, workers)

    outputs = describe_outputs(tmp_path / "one")
    assert len(outputs) == 2 * (4 + 3)
    assert describe_outputs(tmp_path / "two") == outputs
    assert describe_outputs(tmp_path / "four") == outputs
    assert made["one"] == made["two"] == made["four"]
    assert made["one"].dropped.keys() == {"empty", "duplicate", "held_out"}


def test_where_the_shards_are_cut_decides_nothing(tmp_path: Path, recipe: Recipe) -> None:
    download = download_of(tmp_path / "download", {("train", "news"): list(sentences(2_500))})
    rows = []
    for size in (1_000, 2_500):
        config = recipe(corpus={"toy": {}}, clean={"shard_pairs": size})
        clean(config, download, tmp_path / str(size), InProcess())
        rows.append(pl.read_parquet(sorted((tmp_path / str(size)).glob("train-*"))))

    assert rows[0].equals(rows[1])


PIECES = ["dog", "Dog", "cat", "&amp;", "Ã", "©", "\ufffd", "\x85", "\u200b", " ", "  ", ".", "1", "Б", "ß", "\x00"]
texts = st.lists(st.sampled_from(PIECES) | st.characters(codec="utf-8"), max_size=8).map("".join)
rows = st.lists(st.tuples(texts, texts), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(rows, rows, rows, st.booleans(), st.booleans())
def test_nothing_vanishes_and_a_second_pass_drops_nothing(
    news: list[Pair], web: list[Pair], test: list[Pair], exact: bool, limited: bool
) -> None:
    section: dict[str, Any] = {"deduplicate": "exact" if exact else "normalised", "min_letter_share": 0.2}
    if limited:
        section |= {"max_per_source": 1, "max_per_target": 2}
    config = PipelineConfig.model_validate(
        {
            "name": "test",
            "languages": {"source": "en", "target": "de"},
            "corpus": {"toy": {}},
            "clean": section | {"min_language_probability": 0.0},
        }
    )
    test = [pair for pair in test if "\x00" not in "".join(pair)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        held_out = {("test", "test"): test} if test else {}
        first = download_of(folder / "first", {("train", "news"): news, ("train", "web"): web} | held_out)
        kept, dropped = outcome(config, first, folder / "one")
        places = kept.select("corpus", "line").rows() + dropped.select("corpus", "line").rows()
        assert sorted(places) == [("news", n + 1) for n in range(len(news))] + [("web", n + 1) for n in range(len(web))]
        assert not dropped["reason"].null_count()
        if kept.is_empty():
            return
        again = download_of(folder / "second", {("train", "all"): kept.select("source", "target").rows()} | held_out)
        kept_again, dropped_again = outcome(config, again, folder / "two")
        assert dropped_again.is_empty()
        assert kept_again.select("source", "target").equals(kept.select("source", "target"))


def outcome(config: PipelineConfig, download: Artifact, out: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Kept and dropped rows; nothing being left is an outcome as well."""
    try:
        clean(config, download, out, InProcess())
    except StageError as error:
        assert "is left" in str(error)
    return pl.read_parquet(sorted(out.glob("train-*"))), pl.read_parquet(sorted(out.glob("dropped-*")))


def test_files_between_the_steps_may_lie_in_any_store(tmp_path: Path, recipe: Recipe) -> None:
    download = download_of(tmp_path / "download", {("train", "news"): list(sentences(2_500))})
    config = recipe(corpus={"toy": {}}, clean={"shard_pairs": 1_000})
    clean(config, download, tmp_path / "beside", InProcess())
    (tmp_path / "away").mkdir()
    job = Job(SilentReporter(), Resources(scratch="memory://scratch"))
    stage.run(config, {"download": download}, tmp_path / "away", job)

    assert describe_outputs(tmp_path / "away") == describe_outputs(tmp_path / "beside")
