"""Teachers translate text, and their output is chosen, filtered, decontaminated, mixed and counted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.facts import raises

from flows.html_report import blocks
from flows.html_report.data import data
from flows.registry.candidate import Candidate
from flows.registry.model_card import model_card
from flows.runs.summary import RunSummary, StageSummary
from flows.settings import Settings
from nmt_core.config import PipelineConfig, SearchConfig
from nmt_core.errors import ConfigError, StageError
from nmt_core.scoring import most_similar
from nmt_core.store.artifacts import Artifact
from nmt_core.synthesis.synthesise import WORK
from nmt_core.translator import Translator

Recipe = Callable[..., PipelineConfig]
Run = Callable[..., dict[str, Artifact]]

QUICK = {"beam_size": 1, "max_length_offset": 4}
LONGER = {"max_length_offset": 30}
"""The untrained model ends some of its translations."""


def part(text: str, *teachers: Path, **options: Any) -> dict[str, Any]:
    """Part that keeps everything that the untrained teachers make, unless options say otherwise."""
    values = {"name": "made", "text": text, "teachers": [str(each) for each in teachers], "search": QUICK, "drop": []}
    return values | options


def text_of(artifact: Artifact, pattern: str = "train-*.parquet", **equal: Any) -> pl.DataFrame:
    tables = [pl.read_parquet(file) for file in sorted(artifact.path.glob(pattern))]
    return pl.concat(tables, how="diagonal").filter(**equal)


def translations(bundle: Path, lines: list[str], **search: Any) -> list[str]:
    found = Translator.load(bundle, SearchConfig.model_validate(QUICK | search)).translate(lines)
    return [one.text for one in found]


def test_monolingual_target_text_gets_a_source_side(recipe: Recipe, run_until: Run, backward_bundle: Path) -> None:
    made = run_until(recipe([part("target_monolingual", backward_bundle)]))
    report, split = made["synthesise"].report(), made["split"]
    rows = text_of(made["synthesise"], corpus="made")
    assert rows["target"].to_list() == text_of(split, "monolingual-[0-9]*.parquet", side="target")["text"].to_list()
    assert rows["source"].to_list() == translations(backward_bundle, rows["target"].to_list())
    assert set(rows["from_corpus"]) == {"korean"} and set(rows["teacher"]) == {str(backward_bundle)}
    assert (
        text_of(made["synthesise"], corpus="train")
        .select("source", "target", "corpus", "line")
        .equals(text_of(split).select("source", "target", "corpus", "line"))
    )
    assert report["items_out"] == report["parallel"] + rows.height == split.report()["items_out"] + rows.height
    assert [one["translated"] for one in report["parts"]] == [rows.height]


def test_later_stages_find_everything_that_split_writes(recipe: Recipe, run_until: Run, tiny_bundle: Path) -> None:
    config = recipe(
        [part("source_monolingual", tiny_bundle)],
        mix={"corpora": [{"corpus": "made", "tag": "<BT>", "weight": 2}]},
        tokenizer={"vocab_size": 120},
        encode={"max_length": 64},
    )
    made = run_until(config, "encode")
    assert made["tokenizer"].manifest().inputs == {"synthesise": made["synthesise"].fingerprint}
    assert made["synthesise"].manifest().inputs == {"split": made["split"].fingerprint}
    held_out = json.loads((made["split"].path / "splits.json").read_text())
    for name in ("splits.json", held_out["dev"], *held_out["tests"].values()):
        assert (made["synthesise"].path / name).read_bytes() == (made["split"].path / name).read_bytes()
    rows = text_of(made["synthesise"], corpus="made")
    assert all(source.startswith("<BT> ") for source in rows["source"])
    assert rows.height == 2 * rows.select("line").n_unique(), "the weight counts"
    assert made["encode"].report()["items_in"] == made["synthesise"].report()["items_out"]
    assert not (made["synthesise"].path / WORK).exists()


def test_several_teachers_share_the_sentences(
    recipe: Recipe, run_until: Run, tiny_bundle: Path, other_bundle: Path
) -> None:
    made = run_until(recipe([part("source_monolingual", tiny_bundle, other_bundle)]))
    rows = text_of(made["synthesise"], corpus="made")
    for bundle in (tiny_bundle, other_bundle):
        own = rows.filter(teacher=str(bundle))
        assert own.height > 0
        assert own["target"].to_list() == translations(bundle, own["source"].to_list())
    sentences = [one["sentences"] for one in made["synthesise"].report()["teachers"]]
    assert sum(sentences) == rows.height == rows["line"].n_unique()


def test_each_dropped_pair_has_a_counted_reason(recipe: Recipe, run_until: Run, tiny_bundle: Path) -> None:
    config = recipe(
        [part("source_monolingual", tiny_bundle, drop=["unfinished"], search={"method": "sample"} | LONGER)],
        mix={"corpora": [{"corpus": "made", "weight": 0.5}]},
    )
    made = run_until(config)["synthesise"]
    report, dropped = made.report(), text_of(made, "dropped-*.parquet")
    kept = text_of(made, corpus="made")
    assert report["dropped"] == dict(dropped["reason"].value_counts().sort("reason").iter_rows())
    assert report["dropped"].keys() == {"not_drawn", "unfinished"} and kept.height > 0
    assert report["parts"][0]["translated"] == kept.height + dropped.height
    assert report["dropped_by_part"] == {f"made: {reason}": count for reason, count in report["dropped"].items()}
    assert set(kept["line"]).isdisjoint(dropped["line"])


def test_a_translation_that_is_a_test_sentence_is_no_training_text(
    recipe: Recipe, run_until: Run, backward_bundle: Path
) -> None:
    """The Korean of the test set is other text, so that only the translation reveals the sentence."""
    before = text_of(run_until(recipe([part("target_monolingual", backward_bundle)]))["synthesise"], corpus="made")
    leak = before["source"][3]
    made = run_until(recipe([part("target_monolingual", backward_bundle)], test=(f"{leak}\t본다 를 본다",)))
    report = made["synthesise"].report()
    assert leak not in text_of(made["synthesise"])["source"].to_list()
    assert report["dropped"]["held_out"] == report["held_out"]["test/news"] == before["source"].to_list().count(leak)


def test_a_test_sentence_in_monolingual_text_is_not_translated(
    recipe: Recipe, run_until: Run, backward_bundle: Path
) -> None:
    config = recipe([part("target_monolingual", backward_bundle)])
    (korean,) = [Path(text.address) for text in config.corpus.monolingual if text.name == "korean"]
    leak = "나는 본다 학생 이다 를 이다."
    korean.write_text(korean.read_text() + f"{leak}\n", encoding="utf-8")
    assert leak in text_of(run_until(config)["synthesise"])["target"].to_list(), "if no test set has it"
    planted = recipe([part("target_monolingual", backward_bundle)], test=(f"a cat\t{leak}",))
    korean.write_text(korean.read_text() + f"{leak}\n", encoding="utf-8")
    made = run_until(planted)
    assert leak not in text_of(made["synthesise"])["target"].to_list()
    assert made["clean"].report()["monolingual"]["dropped"]["held_out"] == 1


@pytest.mark.parametrize("choose", ["bleu", "chrf"])
def test_the_translation_most_like_the_reference_is_taken(
    recipe: Recipe, run_until: Run, tiny_bundle: Path, choose: str
) -> None:
    search = QUICK | {"method": "sample", "n_best": 4}
    made = run_until(recipe([part("parallel_source", tiny_bundle, search=search, choose=choose)]))
    rows = text_of(made["synthesise"], corpus="made")
    references = text_of(made["split"])
    assert rows["source"].to_list() == references["source"].to_list()
    translator = Translator.load(tiny_bundle, SearchConfig.model_validate(search))
    metric: Any = {"bleu": "BLEU", "chrf": "chrF"}[choose]
    found = translator.translate(rows["source"].to_list())
    choices = [[choice.text for choice in one.choices] for one in found]
    best = [most_similar(metric, each, to, "ko") for each, to in zip(choices, references["target"], strict=True)]
    assert any(best), "the model's own choice is not always the most similar one"
    assert rows["target"].to_list() == [each[place] for each, place in zip(choices, best, strict=True)]


def test_a_student_can_learn_from_its_teacher_alone(recipe: Recipe, run_until: Run, tiny_bundle: Path) -> None:
    """Tags and repetitions of the parallel text do not reach the teacher."""
    config = recipe(
        [part("parallel_source", tiny_bundle)],
        mix={"corpora": [{"corpus": "train", "tag": "<noisy>", "weight": 2}]},
    )
    alone = config.synthesis.model_copy(update={"train_on_parallel": False})
    made = run_until(config.model_copy(update={"synthesis": alone}))
    rows = text_of(made["synthesise"])
    assert set(rows["corpus"]) == {"made"}
    assert set(text_of(made["split"])["source"]) == {f"<noisy> {source}" for source in rows["source"]}
    assert rows.height == rows["source"].n_unique() == made["synthesise"].report()["items_out"]


def test_as_many_sentences_are_drawn_as_are_asked_for(recipe: Recipe, run_until: Run, tiny_bundle: Path) -> None:
    made = run_until(recipe([part("source_monolingual", tiny_bundle, most_sentences=7)]))["synthesise"]
    rows = text_of(made, corpus="made")
    assert rows.height == made.report()["parts"][0]["translated"] == 7
    assert rows["from_line"].to_list() != list(range(1, 8)), "drawn from the whole text"


def test_a_teacher_of_the_wrong_direction_is_refused_before_it_works(
    recipe: Recipe, run_until: Run, tiny_bundle: Path
) -> None:
    with raises(ConfigError, "synthesis.parts.0.teachers", str(tiny_bundle), "en into ko", "from ko into en"):
        run_until(recipe([part("target_monolingual", tiny_bundle)]))


def test_a_model_for_many_pairs_teaches_the_pair_of_the_recipe(
    recipe: Recipe, run_until: Run, tiny_bundle: Path, into_many: Callable[..., Path], tmp_path: Path
) -> None:
    """Its token decides what it writes, so the translations differ from those into its other language."""
    many = into_many(tiny_bundle, tmp_path / "many", "source", ["en-ko", "ko-en"])
    made = run_until(recipe([part("target_monolingual", many)]))
    text = text_of(made["synthesise"], corpus="made")
    translator = Translator.load(many, SearchConfig.model_validate(QUICK))
    korean = text["target"].to_list()
    assert korean
    expected, other = ([one.text for one in translator.translate(korean, to=pair)] for pair in ("ko-en", "en-ko"))
    assert text["source"].to_list() == expected != other

    wrong = into_many(tiny_bundle, tmp_path / "wrong", "source", ["en-ko", "en-de"])
    with raises(ConfigError, "synthesis.parts.0.teachers", "was trained on en-ko, en-de, but the part needs ko-en"):
        run_until(recipe([part("target_monolingual", wrong)]))


def test_the_stage_alone_has_no_model_of_the_other_direction(recipe: Recipe, run_until: Run) -> None:
    with raises(ConfigError, "synthesis.parts.0.teachers=reverse", "only a run of the whole recipe", "or name a model"):
        run_until(recipe([part("target_monolingual", Path("reverse"))]))


def test_a_part_of_which_nothing_is_left_is_an_error(recipe: Recipe, run_until: Run, tiny_bundle: Path) -> None:
    with raises(StageError, "part made", "unfinished", "synthesis.parts.drop"):
        run_until(recipe([part("source_monolingual", tiny_bundle, drop=["unfinished"])]))


def test_the_model_card_and_the_report_of_a_run_name_teachers_and_text(
    recipe: Recipe, run_until: Run, tiny_bundle: Path, tmp_path: Path
) -> None:
    config = recipe([part("source_monolingual", tiny_bundle)])
    made = run_until(config)
    report = made["synthesise"].report()
    (teacher,) = report["teachers"]
    nothing = Artifact("export", "0" * 32, tmp_path / "nothing")
    candidate = Candidate(nothing, nothing, made["download"], made["clean"], synthesise=made["synthesise"])
    card = model_card(config, candidate)
    assert f"- Translation of made by {tiny_bundle}: {teacher['tokens']:,} target tokens, " in card.replace("\\", "")
    assert f"{teacher['sentences']:,} sentences; sha256 of the model {teacher['sha256'][:12]}" in card
    assert "- english: licence not stated" in card and "- korean" not in card, "the Korean text is not used"
    settings = Settings.load({"NMT_HOME": str(tmp_path)})
    (tmp_path / "artifacts").symlink_to(tmp_path / "store")
    summary = RunSummary.begin(config, "a-run")
    for artifact in made.values():
        row = StageSummary(name=artifact.stage, fingerprint=artifact.fingerprint, status="done")
        summary.stages.append(row)
    tables = {
        block.caption: block for block in data(blocks.Run(summary, settings)).blocks if isinstance(block, blocks.Table)
    }
    ((name, text, teachers, translated, *_, trained_on, _),) = tables["Synthetic text"].rows
    assert (name, text, teachers) == ("made", "source monolingual", str(tiny_bundle))
    assert translated == f"{teacher['sentences']:,}" and trained_on == f"{report['parts'][0]['trained_on']:,}"
