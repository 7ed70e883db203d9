"""Text that is made for a model of many pairs of languages: in its pair, with its token, and without leaks."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.facts import raises
from support.small import AT_EASE

from nmt_core.bundle.folder import BUNDLE_FILE
from nmt_core.config import PipelineConfig
from nmt_core.store.artifacts import Artifact

Recipe = Callable[..., PipelineConfig]
Run = Callable[..., dict[str, Artifact]]
BOTH = ["en-de", "de-en"]
ANIMALS = [
    ("dog", "Hund", "chien"),
    ("cat", "Katze", "chat"),
    ("horse", "Pferd", "cheval"),
    ("bird", "Vogel", "oiseau"),
]
SAID = [
    (f"The {a} sees the {b} {n}.", f"Das {x} sieht die {y} {n}.", f"Le {u} voit la {v} {n}.")
    for n in range(3)
    for a, x, u in ANIMALS
    for b, y, v in ANIMALS
]
ENGLISH, GERMAN, FRENCH = map(list, zip(*SAID, strict=True))
HOW = {"search": {"beam_size": 1, "max_length_offset": 4}, "drop": []}
TWO_AT_ONCE = ("He came. You slept.", "Er kam. Du schliefst.")


@pytest.fixture
def many(tmp_path: Path) -> Recipe:
    """Make a recipe for English, German and French, with monolingual German and the sections of a test."""

    def write(name: str, lines: Sequence[str]) -> str:
        file = tmp_path / name
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(file)

    def corpus(name: str, pairs: Sequence[str], sources: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
        sides = {"source": write(f"{name}.1", sources), "target": write(f"{name}.2", targets)}
        return {"name": name, "pairs": list(pairs)} | sides

    def make(unseen: str = "It is late.", **sections: Any) -> PipelineConfig:
        text = {
            "train": [
                corpus("two", BOTH, [*ENGLISH[4:30], TWO_AT_ONCE[0]], [*GERMAN[4:30], TWO_AT_ONCE[1]]),
                corpus("one", ["fr-en"], FRENCH[4:30], ENGLISH[4:30]),
            ],
            "dev": [corpus("dev", BOTH, ENGLISH[:2], GERMAN[:2])],
            "test": [
                corpus("news", BOTH, ENGLISH[2:4], GERMAN[2:4]),
                corpus("unseen", ["fr-en"], ["Rien de plus."], [unseen]),
            ],
            "monolingual": [{"name": "german", "language": "de", "address": write("german.txt", GERMAN[2:])}],
        }
        languages = {"pairs": [*BOTH, "fr-en"]}
        return PipelineConfig.model_validate(
            {"name": "many", "languages": languages, "corpus": text, "clean": AT_EASE} | sections
        )

    return make


@pytest.fixture
def from_german(tiny_bundle: Path, tmp_path: Path) -> str:
    """Untrained model that is labelled as one from German into English."""
    folder = tmp_path / "from-german"
    shutil.copytree(tiny_bundle, folder)
    described = json.loads((folder / BUNDLE_FILE).read_text())
    described["languages"] |= {"source": "de", "target": "en"}
    (folder / BUNDLE_FILE).write_text(json.dumps(described))
    return str(folder)


def text_of(artifact: Artifact, pattern: str = "train-*.parquet", **equal: Any) -> pl.DataFrame:
    tables = [pl.read_parquet(file) for file in sorted(artifact.path.glob(pattern))]
    return pl.concat(tables, how="diagonal").filter(**equal)


def back_translated(teacher: str) -> dict[str, Any]:
    return {"name": "back", "pair": "en-de", "text": "target_monolingual", "teachers": teacher, **HOW}


def test_monolingual_text_serves_every_pair_with_its_language(many: Recipe, run_until: Run, from_german: str) -> None:
    forth = {"name": "forth", "pair": "de-en", "text": "source_monolingual", "teachers": from_german, **HOW}
    parts = [back_translated(from_german), forth]
    config = many(synthesis={"parts": parts}, tokenizer={"vocab_size": 150}, encode={"max_length": 64})
    made = run_until(config, "encode")
    rows, alone = text_of(made["synthesise"]), text_of(made["split"], "monolingual-[0-9]*.parquet")
    assert set(alone["language"]) == {"de"}
    assert not {*GERMAN[2:4]} & {*alone["text"]}, "test sentences are kept out of monolingual text"
    back, forth_rows = (rows.filter(corpus=name) for name in ("back", "forth"))
    assert set(back.select("pair", "source_token").rows()) == {("en-de", "<2de>")}
    assert set(forth_rows.select("pair", "source_token").rows()) == {("de-en", "<2en>")}
    assert back["target"].to_list() == forth_rows["source"].to_list() == alone["text"].to_list()
    assert back["source"].to_list() == forth_rows["target"].to_list(), "one teacher wrote both"
    assert made["encode"].report()["items_in"] == rows.height


def test_a_teacher_translates_the_parallel_text_of_its_pair_alone(
    many: Recipe, run_until: Run, from_german: str
) -> None:
    part = {"name": "student", "pair": "de-en", "text": "parallel_source", "teachers": from_german, **HOW}
    made = run_until(many(synthesis={"parts": [part]}))
    own, of = text_of(made["synthesise"], corpus="student"), text_of(made["split"], pair="de-en")
    assert own["source"].to_list() == of["source"].to_list()
    assert set(own.select("pair", "source_token").rows()) == {("de-en", "<2en>")}


def test_synthetic_text_is_kept_apart_from_the_test_text_of_all_pairs(
    many: Recipe, run_until: Run, from_german: str
) -> None:
    synthesis = {"parts": [back_translated(from_german)]}
    before = text_of(run_until(many(synthesis=synthesis))["synthesise"], corpus="back")
    leak = before["source"][3]
    made = run_until(many(unseen=leak, synthesis=synthesis))["synthesise"]
    assert leak not in text_of(made, corpus="back")["source"].to_list(), "English, in a test set from French"
    dropped = text_of(made, "dropped-*.parquet", reason="held_out")
    assert leak in dropped["source"].to_list()
    assert made.report()["held_out"] == {"test/unseen-fr-en": dropped.height}


def test_rough_copies_are_made_in_each_pair_with_its_token_and_without_leaks(many: Recipe, run_until: Run) -> None:
    parts = [
        {"name": "capitals", "changes": "upper_case", "share": 0.5},
        {"name": "cut", "changes": "split", "share": 1.0},
        {"name": "of-one", "changes": "upper_case", "share": 1.0, "pairs": "fr-en"},
    ]
    made = run_until(many(unseen="You slept.", augmentation={"parts": parts}), "augment")
    before, after = text_of(made["split"]), text_of(made["augment"])
    capitals = after.filter(corpus="capitals")
    of = capitals.join(
        before, left_on=["from_corpus", "from_line", "pair"], right_on=["corpus", "line", "pair"], suffix="_before"
    )
    assert of.height == capitals.height and set(of["pair"]) == {*BOTH, "fr-en"}
    for side in ("source", "target"):
        assert of[side].equals(of[f"{side}_before"].str.to_uppercase())
    assert of["source_token"].equals(of["source_token_before"])
    lines = {pair: {*capitals.filter(pair=pair)["from_line"]} for pair in BOTH}
    assert lines["en-de"] != lines["de-en"], "each direction has its own draw"
    assert set(after.filter(corpus="of-one")["pair"]) == {"fr-en"}
    cut = [*after.filter(corpus="cut").select("source", "target").iter_rows()]
    assert {text for pair in cut for text in pair} <= {"He came.", "Er kam."}, (
        "a test set from French has the other half"
    )
    leaked = text_of(made["augment"], "dropped-*.parquet", reason="held_out")
    assert len(cut) + leaked.height == len(BOTH)
    assert made["augment"].report()["held_out"] == ({"test/unseen-fr-en": leaked.height} if leaked.height else {})


@pytest.mark.parametrize(
    ("sections", "facts"),
    [
        (
            {"synthesis": {"parts": [back_translated("a") | {"pair": ""}]}},
            (r"synthesis.parts.0 \(back\)", "`pair`", "en-de"),
        ),
        ({"synthesis": {"parts": [back_translated("a") | {"pair": "de-fr"}]}}, ("synthesis.parts.0.pair", "de-fr")),
        (
            {"synthesis": {"parts": [back_translated("a") | {"pair": "fr-en"}]}},
            ("target language", "corpus.monolingual", "language: en"),
        ),
        (
            {"augmentation": {"parts": [{"name": "a", "changes": "typos", "pairs": ["fr-de"]}]}},
            ("augmentation.parts.0.pairs", "fr-de", "en-de, de-en, fr-en"),
        ),
        ({"rounds": {"count": 2, "other_direction": "b"}}, ("rounds.other_direction", "teaches itself", "remove")),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(many: Recipe, sections: dict[str, Any], facts: list[str]) -> None:
    with raises(ValueError, *facts):
        many(**sections)


def test_the_language_of_monolingual_text_must_be_one_of_the_recipe(many: Recipe) -> None:
    stored = many().model_dump()
    (text,) = stored["corpus"]["monolingual"]
    for changes, facts in (
        ({"language": "nl"}, ("corpus.monolingual.0.language=nl", "en, de, fr")),
        ({"language": "", "side": "target"}, ("corpus.monolingual.0.side=target", "language")),
        ({"language": ""}, ("names no language",)),
        ({"side": "source"}, ("side=source", "language=de", "remove one")),
    ):
        stored["corpus"]["monolingual"] = [text | changes]
        with raises(ValueError, *facts):
            PipelineConfig.model_validate(stored)


def test_a_recipe_for_one_pair_may_name_the_language_as_well() -> None:
    texts = [{"name": "a", "language": "ko", "address": "a"}, {"name": "b", "language": "en", "address": "b"}]
    train = [{"name": "t", "address": "t.tsv"}]
    config = PipelineConfig.model_validate({"name": "one", "corpus": {"train": train, "monolingual": texts}})
    assert [text.side_in(config.languages) for text in config.corpus.monolingual] == ["target", "source"]
    assert {text.languages_in(config.languages).pair for text in config.corpus.monolingual} == {"en-ko"}
