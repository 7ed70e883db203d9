"""The stage `augment`: which pairs are copied, what joins the training text, and that every copy is accounted for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.facts import raises

from flows.html_report import blocks
from flows.html_report.data import data
from flows.registry.candidate import Candidate
from flows.registry.contamination import leaks
from flows.runs.summary import RunSummary, StageSummary
from flows.settings import Settings
from nmt_core.augmentation.augment import UNCHANGED, WORK
from nmt_core.config import PipelineConfig
from nmt_core.errors import StageError
from nmt_core.store.artifacts import Artifact

Made = dict[str, Artifact]
PAIRS = [
    (f"The {what} number {n} is here.", f"Das {was} Nummer {n} ist hier.")
    for n in range(30)
    for what, was in (("house", "Haus"), ("book", "Buch"))
]
CAPITALS = {"name": "capitals", "changes": "upper_case", "share": 0.5}
AT_EASE = {"min_language_probability": 0, "min_script_share": 0, "max_copied_share": 1}


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., PipelineConfig]:
    """Recipe with sixty pairs, and with the parts and sections that a test names."""

    def make(*parts: dict[str, Any], test: list[tuple[str, str]] | None = None, **sections: Any) -> PipelineConfig:
        def write(name: str, pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
            (tmp_path / name).write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
            return [{"name": Path(name).stem, "address": str(tmp_path / name)}]

        text = {"train": write("train.tsv", PAIRS), "dev": write("dev.tsv", [("A dev line.", "Eine Zeile.")])}
        text["test"] = write("news.tsv", test or [("One more test.", "Noch ein Test.")])
        values = {"name": "rough", "corpus": text, "clean": AT_EASE, "languages": {"source": "en", "target": "de"}}
        return PipelineConfig.model_validate(values | {"augmentation": {"parts": parts}} | sections)

    return make


@pytest.fixture
def run_until(run_until: Callable[..., Made]) -> Callable[..., Made]:
    """Run the first stages of a recipe, by default up to the one of this folder."""
    return lambda config, last="augment", store="store": run_until(config, last, store)


Recipe = Callable[..., PipelineConfig]
Run = Callable[..., Made]


def text_of(artifact: Artifact, pattern: str = "train-*.parquet", **equal: Any) -> pl.DataFrame:
    tables = [pl.read_parquet(file) for file in sorted(artifact.path.glob(pattern))]
    return pl.concat(tables, how="diagonal").filter(**equal)


def test_changed_copies_join_the_text_and_the_text_stays(recipe: Recipe, run_until: Run) -> None:
    made = run_until(recipe(CAPITALS, tokenizer={"vocab_size": 120}, encode={"max_length": 64}), "encode")
    before, after, report = text_of(made["split"]), text_of(made["augment"]), made["augment"].report()
    own = after.filter(corpus="capitals")
    assert after.filter(pl.col("corpus") == "train").select(before.columns).equals(before)
    assert 0.3 * before.height < own.height < 0.7 * before.height, "half, drawn at random"
    of = own.join(before, left_on=["from_corpus", "from_line"], right_on=["corpus", "line"], suffix="_before")
    assert of["source"].equals(of["source_before"].str.to_uppercase())
    assert of["target"].equals(of["target_before"].str.to_uppercase())
    assert report["items_out"] == before.height + own.height == made["encode"].report()["items_in"]
    assert made["tokenizer"].manifest().inputs == {"augment": made["augment"].fingerprint}
    assert not (made["augment"].path / WORK).exists()
    assert (made["augment"].path / "dev.parquet").read_bytes() == (made["split"].path / "dev.parquet").read_bytes()


def test_neither_shards_nor_other_parts_decide_what_is_changed(recipe: Recipe, run_until: Run) -> None:
    typos = {"name": "typos", "changes": ["typos", "punctuation"], "share": 0.4}
    whole = run_until(recipe(CAPITALS, typos))["augment"]
    cut = run_until(recipe(typos, clean=AT_EASE | {"shard_pairs": 1_000}), store="other")["augment"]
    key = ["from_corpus", "from_line", "source", "target"]
    assert (
        text_of(whole, corpus="typos").select(key).sort(key).equals(text_of(cut, corpus="typos").select(key).sort(key))
    )
    seed = recipe(typos, augmentation={"parts": [typos], "seed": 2})
    assert (
        not text_of(run_until(seed)["augment"], corpus="typos")
        .select(key)
        .equals(text_of(whole, corpus="typos").select(key))
    )


def test_the_mix_repeats_and_tags_copies_and_their_origin_has_no_tag(recipe: Recipe, run_until: Run) -> None:
    rules = [{"corpus": "train", "tag": "<N>", "weight": 2}, {"corpus": "capitals", "tag": "<C>", "weight": 3}]
    made = run_until(recipe(CAPITALS | {"share": 1.0}, mix={"corpora": rules}))["augment"]
    own = text_of(made, corpus="capitals")
    assert own.height == 3 * own["line"].n_unique() == 3 * len(PAIRS)
    assert all(source.startswith("<C> THE ") for source in own["source"])
    (part,) = made.report()["parts"]
    assert (part["copied"], part["trained_on"], part["times"], part["tag"]) == (60, 180, 3.0, "<C>")


def test_each_dropped_copy_has_a_counted_reason(recipe: Recipe, run_until: Run) -> None:
    """Splitting makes single sentences, of which one is a test sentence. Pairs of one sentence cannot be split."""
    pairs = [
        *PAIRS[:5],
        *[(f"I came home at {n}. You slept.", f"Ich kam um {n} heim. Du schliefst.") for n in range(40)],
    ]
    config = recipe({"name": "cut", "changes": "split", "share": 1.0}, test=[("You slept.", "Du hast geschlafen.")])
    (Path(config.corpus.train[0].address)).write_text(
        "".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8"
    )
    made = run_until(config)
    report, dropped = made["augment"].report(), text_of(made["augment"], "dropped-*.parquet", corpus="cut")
    own = text_of(made["augment"], corpus="cut")
    assert report["dropped"] == dict(dropped["reason"].value_counts().sort("reason").iter_rows())
    assert report["dropped"].keys() == {"held_out", UNCHANGED} and report["dropped"][UNCHANGED] == 5
    assert "You slept." not in own["source"].to_list() and own.height + dropped.height == len(pairs)
    assert report["held_out"] == {"test/news": report["dropped"]["held_out"]}
    nothing = Artifact("export", "0" * 32, made["split"].path)
    assert leaks(Candidate(nothing, nothing, split=made["split"], augment=made["augment"])) == report["held_out"]


def test_a_part_of_which_nothing_is_left_says_why(recipe: Recipe, run_until: Run) -> None:
    with raises(StageError, "capitals", "no_diacritics", "nothing_to_change 60", "changes"):
        run_until(recipe(CAPITALS | {"changes": "no_diacritics", "share": 1.0}))


@pytest.mark.parametrize(
    ("part", "facts"),
    [
        ({"name": "train"}, ("augmentation.parts.0.name", "'train'", "name of its own")),
        ({"corpora": ["other"]}, ("augmentation.parts.0.corpora", "'other'", "train")),
        ({"changes": ["upper_case", "lower_case"]}, ("upper_case", "lower_case", "two parts")),
        ({"changes": ["louder"]}, ("louder", "upper_case")),
        ({"share": 0}, ("augmentation.parts.0.share",)),
    ],
)
def test_a_wrong_part_is_refused_with_its_place(recipe: Recipe, part: dict[str, Any], facts: tuple[str, ...]) -> None:
    with raises(ValueError, *facts):
        recipe(CAPITALS | part)


def test_the_report_of_a_run_shows_each_part_with_samples(recipe: Recipe, run_until: Run, tmp_path: Path) -> None:
    config = recipe(CAPITALS)
    made = run_until(config)
    (tmp_path / "artifacts").symlink_to(tmp_path / "store")
    summary = RunSummary.begin(config, "a-run")
    for artifact in made.values():
        summary.stages.append(StageSummary(name=artifact.stage, fingerprint=artifact.fingerprint, status="done"))
    shown = data(blocks.Run(summary, Settings.load({"NMT_HOME": str(tmp_path)}))).blocks
    tables = {block.caption: block for block in shown if isinstance(block, blocks.Table)}
    assert tables["Augmented text"].rows[0][:2] == ["capitals", "upper case"]
    samples = [block for block in shown if isinstance(block, blocks.Sentences) and "changed" in block.caption]
    assert dict(samples[0].items[0][1])["source"] == dict(samples[0].items[0][1])["before"].upper()
