"""Pairs like the text of a domain score higher than others, and pairs below the minimum score are dropped."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from nmt_core.config import CROSS_ENTROPY_DIFFERENCE, PipelineConfig
from nmt_core.corpus.clean import DROPPED_FILES, TRAIN_FILES
from nmt_core.corpus.cleaning.cross_entropy import Selection, words_of
from nmt_core.errors import DataError

Pair = tuple[str, str]

NEWS = {
    "en": ["the minister", "parliament", "an election", "the court", "a law", "the president"],
    "de": ["der Minister", "das Parlament", "eine Wahl", "das Gericht", "ein Gesetz", "der Präsident"],
}
DEVICES = {
    "en": ["the printer", "a kernel module", "the server", "this package", "the disk", "a driver"],
    "de": ["der Drucker", "ein Kernelmodul", "der Server", "dieses Paket", "die Platte", "ein Treiber"],
}


def talk(subjects: dict[str, list[str]], pairs: int, seed: int) -> list[Pair]:
    """Different sentences about these subjects."""
    draw, found = random.Random(seed), dict[Pair, None]()
    while len(found) < pairs:
        one, two, three = draw.choices(range(6), k=3)
        english, german = subjects["en"], subjects["de"]
        source = f"On day {draw.randrange(99)} {english[one]} saw {english[two]} and then {english[three]} again."
        found[source, f"Am Tag sah {german[one]} schon {german[two]} und dann wieder {german[three]}."] = None
    return list(found)


def table(pairs: Sequence[Pair]) -> pl.DataFrame:
    return pl.DataFrame(pairs, schema=["source", "target"], orient="row")


@pytest.fixture(scope="module")
def selection() -> Selection:
    return Selection.learn(table(talk(NEWS, 300, 1)), table(talk(NEWS, 60, 2) + talk(DEVICES, 240, 3)))


def test_text_of_the_domain_scores_more(selection: Selection) -> None:
    news, devices = (selection.score(table(talk(subjects, 100, 9))) for subjects in (NEWS, DEVICES))
    assert news.min() > 0 > devices.max()


def test_both_sides_count(selection: Selection) -> None:
    [(source, target)], [(other_source, other_target)] = talk(NEWS, 1, 9), talk(DEVICES, 1, 9)
    pairs = [(source, target), (source, other_target), (other_source, target), (other_source, other_target)]
    both, first, second, neither = selection.score(table(pairs)).to_list()
    assert both > first > neither
    assert both > second > neither
    assert both + neither == pytest.approx(first + second)


def test_models_come_back_from_their_table(selection: Selection, tmp_path: Path) -> None:
    pairs = table(talk(NEWS, 20, 5) + talk(DEVICES, 20, 5) + [("", ""), ("漢字", "wholly unknown words")])
    selection.to_frame().write_parquet(tmp_path / "models.parquet")
    again = Selection.from_frame(pl.read_parquet(tmp_path / "models.parquet"))
    assert again.score(pairs).equals(selection.score(pairs))
    assert again.score(pairs.clear()).to_list() == []


def test_one_pair_is_scored_as_in_company(selection: Selection) -> None:
    pairs = table(talk(NEWS, 10, 6))
    alone = [selection.score(pairs.slice(row, 1)).item() for row in range(10)]
    assert alone == pytest.approx(selection.score(pairs).to_list(), abs=1e-12)


def test_words_of_scripts_without_spaces_are_characters() -> None:
    (found,) = words_of(pl.Series(["GNU는 3.2판, 漢字 It's"])).to_list()
    assert found == ["gnu", "는", "3", ".", "2", "판", ",", "漢", "字", "it", "'", "s"]


@pytest.mark.parametrize("domain", ["dev", "news"])
def test_pairs_below_the_least_score_are_dropped(
    recipe: Callable[..., PipelineConfig], write_corpus: Any, run_until: Any, domain: str
) -> None:
    of_news, of_devices = talk(NEWS, 150, 11), talk(DEVICES, 150, 12)
    config = recipe(
        corpus={
            "train": [write_corpus("news", of_news), write_corpus("web", of_devices)],
            "dev": [write_corpus("dev", talk(NEWS, 200, 13))],
            "test": [write_corpus("test", talk(NEWS, 20, 14))],
            "licence": "CC0",
        },
        clean={
            "scores": [{"scorer": CROSS_ENTROPY_DIFFERENCE, "min_score": 0}],
            "in_domain": domain,
            "decontaminate": False,
            "min_language_probability": 0,
        },
    )
    made = run_until(config, "clean")["clean"]
    report = made.report()
    kept, dropped = (pl.read_parquet(sorted(made.path.glob(files))) for files in (TRAIN_FILES, DROPPED_FILES))
    assert report["dropped"] == {f"score:{CROSS_ENTROPY_DIFFERENCE}": len(dropped)}
    assert dropped.filter(corpus="web").height == 150
    assert set(kept["corpus"]) == {"news"}
    assert len(kept) > 120, "a few sentences are mostly made of what both corpora have in common"
    assert kept["score_0"].min() >= 0 > dropped["value"].cast(pl.Float64).max()


def test_a_domain_without_text_is_told(
    recipe: Callable[..., PipelineConfig], write_corpus: Any, run_until: Any, sound: Sequence[Pair]
) -> None:
    config = recipe(
        corpus={"train": [write_corpus("web", sound), write_corpus("news", [("", ""), ("a", "")])], "licence": "CC0"},
        clean={"scores": [{"scorer": CROSS_ENTROPY_DIFFERENCE}], "in_domain": "news"},
    )
    with pytest.raises(DataError, match=r"clean\.in_domain='news': holds no pair to learn from"):
        run_until(config, "clean")


def test_a_domain_that_was_left_out_is_told(
    recipe: Callable[..., PipelineConfig], write_corpus: Any, run_until: Any, sound: Sequence[Pair]
) -> None:
    gone = write_corpus("news", sound)
    config = recipe(
        corpus={"train": [write_corpus("web", sound), gone], "licence": "CC0", "on_bad_corpus": "skip"},
        clean={"scores": [{"scorer": CROSS_ENTROPY_DIFFERENCE}], "in_domain": "news"},
    )
    Path(gone.source).unlink()
    with pytest.raises(DataError, match=r"clean\.in_domain=.news.: left out.*news\.en.*--force download"):
        run_until(config, "clean")


@pytest.mark.parametrize(
    ("clean", "message"),
    [
        ({"scores": [{"scorer": CROSS_ENTROPY_DIFFERENCE}]}, "set in_domain to the name of its corpus"),
        ({"in_domain": "web"}, "in_domain='web' is only for the score cross-entropy-difference: add that to scores"),
        (
            {"scores": [{"scorer": CROSS_ENTROPY_DIFFERENCE}], "in_domain": "test"},
            r"clean\.in_domain='test' is not in corpus\.train \(web\)",
        ),
    ],
)
def test_the_domain_is_a_corpus_that_may_be_learnt_from(
    recipe: Callable[..., PipelineConfig], clean: dict[str, Any], message: str
) -> None:
    corpus = {"train": [{"name": "web", "address": "a/web"}], "test": [{"name": "test", "address": "a/test"}]}
    with pytest.raises(ValidationError, match=message):
        recipe(corpus=corpus, clean=clean)
