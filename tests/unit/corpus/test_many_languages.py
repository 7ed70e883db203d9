"""Text of many pairs of languages: cleaned by pair, protected in all, mixed by pair and marked with a token."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nmt_core.config import MixConfig, PipelineConfig
from nmt_core.corpus import mix
from nmt_core.errors import StageError
from nmt_core.store.artifacts import Artifact

RunUntil = Callable[..., dict[str, Artifact]]
ANIMALS = [
    ("dog", "Hund", "chien"),
    ("cat", "Katze", "chat"),
    ("horse", "Pferd", "cheval"),
    ("bird", "Vogel", "oiseau"),
    ("mouse", "Maus", "souris"),
]
SAID = [
    (f"The {a} sees the {b} today.", f"Das {x} sieht heute die {y}.", f"Le {u} voit la {v} aujourd'hui.")
    for a, x, u in ANIMALS
    for b, y, v in ANIMALS
]
ENGLISH, GERMAN, FRENCH = map(list, zip(*SAID, strict=True))
COPY = ("Stop now, please.", "Stop now, please do it.")


@pytest.fixture
def many(tmp_path: Path) -> Callable[..., PipelineConfig]:
    """Make a recipe for English, German and French, with the text of each corpus."""

    def corpus(name: str, pairs: Sequence[str], sources: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
        files = tmp_path / f"{name}.1", tmp_path / f"{name}.2"
        for file, lines in zip(files, (sources, targets), strict=True):
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return {"name": name, "source": str(files[0]), "target": str(files[1]), "pairs": list(pairs)}

    def make(train: Sequence[tuple[str, list[str], list[str], list[str]]] = (), **sections: Any) -> PipelineConfig:
        both = ["en-de", "de-en"]
        text = {
            "train": [
                *[corpus(*each) for each in train],
                corpus("two", both, [*ENGLISH[4:], COPY[0]], [*GERMAN[4:], COPY[1]]),
                corpus("one", ["fr-en"], [*FRENCH[2:12], COPY[0]], [*ENGLISH[2:12], COPY[1]]),
            ],
            "dev": [corpus("dev", both, ENGLISH[:2], GERMAN[:2])],
            "test": [corpus("news", both, ENGLISH[2:4], GERMAN[2:4])],
        }
        unseen = corpus("unseen", ["fr-de"], FRENCH[4:5], GERMAN[4:5])
        text["test"].append(unseen | {"zero_shot": True})
        languages = {"pairs": [*both, "fr-en"]} | sections.pop("languages", {})
        rules = {"min_language_probability": 0}
        return PipelineConfig.model_validate(
            {"name": "many", "languages": languages, "corpus": text, "clean": rules, **sections}
        )

    return make


def rows(artifact: Artifact, files: str) -> pl.DataFrame:
    return pl.concat(pl.read_parquet(file) for file in sorted(artifact.path.glob(files)))


def test_a_test_sentence_of_one_pair_is_kept_out_of_all_others(
    many: Callable[..., PipelineConfig], run_until: RunUntil
) -> None:
    clean = run_until(many(), "clean")["clean"]
    dropped = rows(clean, "dropped-*.parquet").filter(reason="held_out")

    # English test text of en-de is on the target side of fr-en, and French text of fr-de on its source side.
    assert dropped.select("corpus", "line", "value").sort("corpus", "line").rows() == [
        ("one", 1, "test/news"),
        ("one", 2, "test/news"),
        ("one", 3, "test/unseen"),
        ("two", 1, "test/unseen"),
    ]
    # The same two sentences are a copy within one pair of languages only.
    assert rows(clean, "train-*.parquet").filter(source=COPY[0])["corpus"].sort().to_list() == ["one", "two"]
    pairs = {row["corpus"]: row["pair"] for row in clean.report()["funnel"]}
    assert pairs == {"two": "en-de, de-en", "one": "fr-en"}


@pytest.mark.parametrize("deduplicate", ["exact", "normalised"])
def test_a_copy_is_dropped_only_where_all_its_directions_are_kept(
    many: Callable[..., PipelineConfig], run_until: RunUntil, deduplicate: str
) -> None:
    alone = ("It rains in the old town.", "Es regnet in der alten Stadt.")
    forth = ("forth", ["en-de"], [ENGLISH[5], alone[0]], [GERMAN[5], alone[1]])
    back = ("back", ["de-en"], [GERMAN[6], alone[1]], [ENGLISH[6], alone[0]])
    rules = {"min_language_probability": 0, "deduplicate": deduplicate}
    clean = run_until(many([forth, back], clean=rules), "clean")["clean"]
    dropped = rows(clean, "dropped-*.parquet").filter(reason="duplicate")

    # The corpus `two` serves both directions: its rows stay, though they come later.
    assert dropped.select("corpus", "line").sort("corpus", "line").rows() == [("back", 1), ("forth", 1)]
    assert all("two" in value for value in dropped["value"])
    kept = rows(clean, "train-*.parquet")
    assert kept.filter(pl.col("source").is_in(alone)).select("corpus", "source").rows() == [
        ("forth", alone[0]),
        ("back", alone[1]),
    ]


def test_a_near_copy_is_dropped_only_where_all_its_directions_are_kept(
    many: Callable[..., PipelineConfig], run_until: RunUntil
) -> None:
    """Near copies are compared language by language, whichever side it is on, and not across pairs of languages."""
    near = " ".join(ENGLISH[5:9]), " ".join(GERMAN[5:9])
    same = " ".join(f"{number}" for number in range(20))
    forth = ("forth", ["en-de"], [f"{near[0]} Yes.", f"{same} 20"], [near[1], same])
    both = ("both", ["de-en", "en-de"], [near[1]], [near[0]])
    wide = ("wide", ["en-de", "de-en"], [near[0]], [f"{near[1]} Ja."])
    back = ("back", ["de-en"], [f"{same} 21"], [same])
    other = ("other", ["fr-en"], [f"{same} 22"], [same])
    rules = {"min_language_probability": 0, "deduplicate": "none", "near_duplicates": 0.8}
    clean = run_until(many([forth, wide, both, back, other], clean=rules), "clean")["clean"]
    dropped = rows(clean, "dropped-*.parquet").filter(~pl.col("corpus").is_in(["one", "two"]), reason="near_duplicate")
    assert dropped.select("corpus", "line").sort("corpus").rows() == [("both", 1), ("forth", 1)]
    assert all("wide" in value for value in dropped["value"])


@pytest.mark.parametrize("pairs", [["en-de", "de-en"], ["de-en", "en-de"]])
def test_near_copies_are_found_in_either_order_of_the_sides(
    many: Callable[..., PipelineConfig], run_until: RunUntil, pairs: list[str]
) -> None:
    text = [" ".join(ENGLISH[5:9]), " ".join(GERMAN[5:9])][:: 1 if pairs[0] == "en-de" else -1]
    first = ("first", ["en-de", "de-en"], [" ".join(ENGLISH[5:9])], [" ".join(GERMAN[5:9]) + " Ja."])
    rules = {"min_language_probability": 0, "deduplicate": "none", "near_duplicates": 0.8}
    clean = run_until(many([first, ("second", pairs, text[:1], text[1:])], clean=rules), "clean")["clean"]
    assert "second" in rows(clean, "dropped-*.parquet").filter(reason="near_duplicate")["corpus"].to_list()


def test_each_pair_is_written_in_its_direction_with_its_token(
    many: Callable[..., PipelineConfig], run_until: RunUntil
) -> None:
    split = run_until(many(), "split")["split"]
    train = rows(split, "train-*.parquet")

    counts = dict(train["source_token"].value_counts().iter_rows())
    assert counts == {"<2de>": 21, "<2en>": 21 + 8}
    forth, back = (train.filter(pair=pair) for pair in ("en-de", "de-en"))
    assert forth["source"].to_list() == back["target"].to_list()
    assert set(forth["source"]) <= {*ENGLISH, COPY[0]}
    assert {(row["corpus"], row["pair"]): row["trained_on"] for row in split.report()["mix"]} == {
        ("two", "en-de"): 21,
        ("two", "de-en"): 21,
        ("one", "fr-en"): 8,
    }

    splits = json.loads((split.path / "splits.json").read_text(encoding="utf-8"))
    assert splits["pairs"] == {"news-en-de": "en-de", "news-de-en": "de-en", "unseen-fr-de": "fr-de"}
    assert splits["zero_shot"] == ["unseen-fr-de"]
    assert rows(split, "test-news-de-en.parquet").rows() == list(zip(GERMAN[2:4], ENGLISH[2:4], strict=True))
    assert rows(split, "dev.parquet").select("pair", "source_token").rows() == [
        *[("en-de", "<2de>")] * 2,
        *[("de-en", "<2en>")] * 2,
    ]


def test_caps_and_weights_of_pairs_leave_no_row_unaccounted_for(
    many: Callable[..., PipelineConfig], run_until: RunUntil
) -> None:
    rules = [{"pair": "en-de", "max_pairs": 5}, {"pair": "fr-en", "weight": 2}]
    split = run_until(many(mix={"pairs": rules}, languages={"tag_side": "target"}), "split")["split"]
    report = split.report()

    trained_on = {row["pair"]: row["trained_on"] for row in report["mix"]}
    assert 0 < trained_on["en-de"] <= 5
    assert (trained_on["de-en"], trained_on["fr-en"]) == (21, 16)
    assert report["dropped"] == {"not_drawn": 21 - trained_on["en-de"]}
    dropped = rows(split, "dropped-*.parquet")
    assert set(dropped.select("reason", "value").rows()) == {("not_drawn", "en-de")}
    assert "source_token" not in rows(split, "train-*.parquet").columns
    assert rows(split, "train-*.parquet")["target_token"].null_count() == 0


def test_a_pair_whose_text_is_all_dropped_is_refused_by_name(
    many: Callable[..., PipelineConfig], run_until: RunUntil
) -> None:
    too_strict = {"overrides": [{"corpus": "one", "max_words": 1}]}
    with pytest.raises(StageError, match=r"no text is left for the pair fr-en.*corpus\.train"):
        run_until(many(clean=too_strict), "split")


def test_a_temperature_evens_out_pairs_and_not_their_corpora() -> None:
    counts = {"large": np.array([8_000]), "small": np.array([1_000]), "poor": np.array([1_000])}
    directions = {"large": ["en-de"], "small": ["en-de"], "poor": ["en-fr"]}
    rates = mix.rates_of_pairs(counts, MixConfig(temperature=2), directions)

    sizes = {key: rate.times * counts[key.split()[0]][0] for key, rate in rates.items()}
    assert sum(sizes.values()) == pytest.approx(10_000)
    assert (sizes["large en-de"] + sizes["small en-de"]) / sizes["poor en-fr"] == pytest.approx(3)
    assert sizes["large en-de"] / sizes["small en-de"] == pytest.approx(8)
    plain = mix.rates_of_pairs(counts, MixConfig(), directions)
    assert all(rate.changes_nothing for rate in plain.values())
