"""The stage: the bundle translates every test set, and the translations are stored and scored."""

import json
import sys
from pathlib import Path

import polars
import pytest
from support.judges import CountedJudge, number_of

from nmt_core.config import CorpusConfig, EvaluateConfig, PipelineConfig, SearchConfig, ToyCorpusConfig
from nmt_core.evaluate.report import run
from nmt_core.evaluate.sentences import read_sentences
from nmt_core.evaluate.system_scores import read_systems
from nmt_core.judges.files import identity
from nmt_core.scoring import score
from nmt_core.stages.stage import Job, Resources, SilentReporter, restrict
from nmt_core.store.artifacts import Artifact
from nmt_core.translator import Translator

LENGTHS = f"{sys.executable} -c 'import json, sys; [print(len(json.loads(row)[\"translation\"])) for row in sys.stdin]'"
SOURCES = ["the cat sees a dog.", "a big house", "now", "the dog runs to it", "a small cat"]


@pytest.fixture
def split(tmp_path: Path) -> Path:
    folder = tmp_path / "split"
    folder.mkdir()
    pairs = {"source": SOURCES, "target": [f"{line} 본다" for line in SOURCES]}
    polars.DataFrame(pairs).write_parquet(folder / "test.news.parquet")
    polars.DataFrame(pairs).head(2).write_parquet(folder / "test.web.parquet")
    tests = {"news": "test.news.parquet", "web": "test.web.parquet"}
    (folder / "splits.json").write_text(json.dumps({"dev": "dev.parquet", "tests": tests}))
    return folder


def test_every_test_set_is_translated_and_scored(tiny_bundle: Path, split: Path, tmp_path: Path) -> None:
    config = PipelineConfig(
        name="tiny",
        corpus=CorpusConfig(toy=ToyCorpusConfig()),
        evaluate=EvaluateConfig(
            samples=2, sentences=("a dog",), metrics=("TER", {"name": "lengths", "command": LENGTHS})
        ),
        search=SearchConfig(beam_size=2, max_length_offset=3),
    )
    inputs = {"export": Artifact("export", "0" * 32, tiny_bundle), "split": Artifact("split", "0" * 32, split)}
    report = run(
        restrict(config, ("evaluate", "search", "languages")),
        inputs,
        tmp_path,
        Job(SilentReporter(), Resources(threads=2)),
    )
    expected = [one.text for one in Translator.load(tiny_bundle, config.search).translate(SOURCES)]
    assert (tmp_path / "news.hypotheses.txt").read_text(encoding="utf-8").split("\n") == [*expected, ""]
    assert (tmp_path / "web.hypotheses.txt").read_text(encoding="utf-8").split("\n") == [*expected[:2], ""]
    assert [(one.test_set, one.metric) for one in report.scores] == [
        ("news", "BLEU"),
        ("news", "chrF"),
        ("news", "BLEU ko-mecab"),
        ("news", "TER"),
        ("news", "lengths"),
        ("web", "BLEU"),
        ("web", "chrF"),
        ("web", "BLEU ko-mecab"),
        ("web", "TER"),
        ("web", "lengths"),
    ]
    assert report.known_sentences == {"news": 5, "web": 2}
    assert report.unknown_in_references == {"news": 0, "web": 0}
    assert (report.items_in, report.items_out, report.unit) == (7, 7, "sentences")
    assert [sample.source for sample in report.samples] == [SOURCES[0], SOURCES[2], "a dog"]
    assert [sample.reference for sample in report.samples] == ["the cat sees a dog. 본다", "now 본다", ""]
    assert report.samples[1].translation == expected[2]
    assert report.tokens_per_second > 0
    assert list(report.test_sets) == ["news", "web"] and len(set(report.test_sets.values())) == 2
    assert all(
        one.low is not None and one.high is not None and one.low <= one.high
        for one in report.scores
        if one.metric in {"BLEU", "chrF"}
    )
    assert (report.device, report.tokens) == ("cpu", sum(rows_of(tmp_path, name)["tokens"].sum() for name in SETS))
    assert [(one.test_set, one.sentences) for one in report.by_length] == [("news", 5), ("web", 2)]
    assert report.by_length[0].bleu == pytest.approx(report.scores[0].score, abs=0.01), "all in one bucket"
    rows = rows_of(tmp_path, "news")
    assert rows["source"].to_list() == SOURCES
    assert rows["hypothesis"].to_list() == expected
    assert rows["chrf"].is_between(0, 100).all()
    assert rows["model_score"].max() < 0
    assert rows["metric:lengths"].to_list() == [len(text) for text in expected]
    assert report.not_scored == {}


def test_suites_of_the_main_test_set_are_scored_and_too_few_sentences_are_said(
    tiny_bundle: Path, split: Path, tmp_path: Path
) -> None:
    kinds = [{"kind": kind, "min_sentences": 1} for kind in ("negation", "upper_case", "long_lines", "numbers")]
    kinds[2]["joined"], kinds[0]["words"] = 2, ["dog"]
    values = {"name": "tiny", "corpus": {"toy": {}}, "search": {"beam_size": 2, "max_length_offset": 3}}
    config = PipelineConfig.model_validate(
        values
        | {
            "evaluate": {
                "suites": kinds,
                "interval_samples": 0,
                "metrics": [{"name": "lengths", "command": LENGTHS}, {"name": "bad", "command": "no-such-judge"}],
            }
        }
    )
    inputs = {"export": Artifact("export", "0" * 32, tiny_bundle), "split": Artifact("split", "0" * 32, split)}
    said = list[str]()
    reporter = SilentReporter()
    reporter.notice = said.append  # type: ignore[method-assign]
    report = run(config, inputs, tmp_path, Job(reporter, Resources()))
    translate = Translator.load(tiny_bundle, config.search).translate
    capitals = [one.text for one in translate([line.upper() for line in SOURCES])]
    assert [(one.suite, one.kind, one.sentences, one.total) for one in report.suites] == [
        ("news+negation", "negation", 2, 5),
        ("news+upper_case", "upper_case", 5, 5),
        ("news+long_lines", "long_lines", 2, 2),
        ("news+numbers", "numbers", 0, 5),
    ]
    dogs = rows_of(tmp_path, "news+negation")
    assert dogs.select("source", "hypothesis").equals(rows_of(tmp_path, "news")[[0, 3]].select("source", "hypothesis"))
    assert dogs["metric:lengths"].to_list() == [len(text) for text in dogs["hypothesis"]]
    upper = rows_of(tmp_path, "news+upper_case")
    assert upper["source"].to_list() == [line.upper() for line in SOURCES]
    assert upper["hypothesis"].to_list() == capitals
    lowered = [text.lower() for text in capitals]
    references = [f"{line} 본다".lower() for line in SOURCES]
    of_suite = {(one.test_set, one.metric): one for one in report.scores}
    assert of_suite["news+upper_case", "chrF"].score == score("x", lowered, references, "ko")[1].score
    assert "case:lc" in of_suite["news+upper_case", "chrF"].signature
    assert of_suite["news+negation", "lengths"].score == pytest.approx(dogs["metric:lengths"].mean(), abs=1e-4)
    choosing, changing, _, none = report.suites
    assert choosing.chrf == of_suite["news+negation", "chrF"].score and choosing.chrf_unchanged is None
    assert changing.chrf_unchanged is not None and changing.chrf == of_suite["news+upper_case", "chrF"].score
    assert none.chrf is None and none.not_scored.startswith("news has 0 sentences for it")
    assert f"news+numbers is not scored: {none.not_scored}" in said
    assert "bad of news+upper_case" in report.not_scored
    assert list(report.test_sets) == ["news", "web", "news+negation", "news+upper_case", "news+long_lines"]
    assert report.scores[0].test_set == "news" and "news+numbers" not in {one.test_set for one in report.scores}


def test_other_systems_are_scored_beside_the_model_and_one_that_fails_stops_nothing(
    tiny_bundle: Path, split: Path, tmp_path: Path
) -> None:
    """Three systems: one knows the references, one is this model itself, and one has lost a line."""
    upper = f"{sys.executable} -c 'import sys; [print(line.upper(), end=\"\") for line in sys.stdin]'"
    for name, count in (("news", 5), ("web", 1)):
        (tmp_path / f"{name}.txt").write_text("".join(f"{line} 본다\n" for line in SOURCES[:count]), encoding="utf-8")
    systems = [
        {"name": "perfect", "file": str(tmp_path / "{test_set}.txt")},
        {"name": "itself", "bundle": str(tiny_bundle)},
        {"name": "shouting", "command": upper},
    ]
    values = {"name": "tiny", "corpus": {"toy": {}}, "search": {"beam_size": 2, "max_length_offset": 3}}
    evaluate = {"systems": systems, "interval_samples": 200, "metrics": [{"name": "lengths", "command": LENGTHS}]}
    config = PipelineConfig.model_validate(values | {"evaluate": evaluate})
    inputs = {"export": Artifact("export", "0" * 32, tiny_bundle), "split": Artifact("split", "0" * 32, split)}
    said, reporter = list[str](), SilentReporter()
    reporter.notice = said.append  # type: ignore[method-assign]
    job = Job(reporter, Resources(cache=str(tmp_path / "cache")))
    report = run(config, inputs, tmp_path, job)
    found = {(one.system, one.test_set, one.metric): one for one in report.systems}
    assert {key[:2] for key in found} == {(system["name"], name) for system in systems for name in SETS} - {
        ("perfect", "web")
    }
    assert {metric for *_, metric in found} == {"BLEU", "chrF", "lengths"}
    best = found["perfect", "news", "chrF"]
    assert best.score == 100 and best.verdict == "worse" and best.difference == pytest.approx(best.own - 100)
    assert best.high is not None and best.high < 0
    lengths = [len(text) for text in rows_of(tmp_path, "news")["hypothesis"]]
    assert found["perfect", "news", "lengths"].own == pytest.approx(sum(lengths) / 5, abs=1e-4)
    own = next(one.score for one in report.scores if (one.test_set, one.metric) == ("news", "chrF"))
    assert best.own == own
    assert list(report.not_compared) == ["perfect on web"]
    assert "has 1 line for 2 sentences" in report.not_compared["perfect on web"]
    assert said == [f"perfect is left out on web: {report.not_compared['perfect on web']}"]
    rows = read_systems(tmp_path, "news")
    assert rows is not None and rows.columns == ["source", "reference", "hypothesis", "perfect", "itself", "shouting"]
    assert rows["shouting"].to_list() == [line.upper() for line in SOURCES]
    assert read_systems(tmp_path, "none") is None
    assert len(list((tmp_path / "cache").iterdir())) == 2


SETS = ("news", "web")


def rows_of(folder: Path, name: str) -> polars.DataFrame:
    rows = read_sentences(folder, name)
    assert rows is not None
    return rows


def test_an_evaluation_of_an_earlier_version_kept_no_sentences(tmp_path: Path) -> None:
    assert read_sentences(tmp_path, "news") is None


def test_the_sentences_of_the_recipe_and_the_built_in_ones_are_looked_at(
    tiny_bundle: Path, split: Path, tmp_path: Path
) -> None:
    rule = {"source": "a big house", "contains": ["Getriebe"]}
    config = PipelineConfig.model_validate(
        {"name": "tiny", "corpus": {"toy": {}}, "evaluate": {"must_translate": [rule], "interval_samples": 0}}
    )
    inputs = {"export": Artifact("export", "0" * 32, tiny_bundle), "split": Artifact("split", "0" * 32, split)}
    report = run(config, inputs, tmp_path, Job(SilentReporter(), Resources()))
    (translation,) = Translator.load(tiny_bundle, config.search).translate(["a big house"])
    first, *others = report.must_translate
    assert (first.kind, first.source, first.translation) == ("recipe", "a big house", translation.text)
    assert first.problem == "'Getriebe' is missing"
    assert {one.kind for one in others} == {"numbers", "addresses", "placeholders"}
    assert all(one.low is None for one in report.scores)


@pytest.mark.parametrize("allow_code", [True, False])
def test_a_program_may_choose_the_translations_that_are_scored(
    allow_code: bool, tiny_bundle: Path, split: Path, tmp_path: Path
) -> None:
    judge = CountedJudge(tmp_path)
    search = SearchConfig.model_validate(
        {"method": "sample", "candidates": 8, "max_length_offset": 3} | judge.options()
    )
    config = PipelineConfig(name="tiny", corpus=CorpusConfig(toy=ToyCorpusConfig()), search=search)
    inputs = {"export": Artifact("export", "0" * 32, tiny_bundle), "split": Artifact("split", "0" * 32, split)}
    job = Job(SilentReporter(), Resources(threads=1), allow_code=allow_code)
    report = run(restrict(config, ("evaluate", "search", "languages")), inputs, tmp_path, job)
    plain = Translator.load(tiny_bundle, search.without_judge.model_copy(update={"n_best": 8})).translate(SOURCES)
    choices = [[choice.text for choice in one.choices] for one in plain]
    best = [
        max(own, key=lambda text, line=line: number_of(line, text)) for line, own in zip(SOURCES, choices, strict=True)
    ]
    expected = best if allow_code else [own[0] for own in choices]
    assert best != [own[0] for own in choices]
    assert (tmp_path / "news.hypotheses.txt").read_text(encoding="utf-8").splitlines() == expected
    assert report.not_judged == (0 if allow_code else 7)
    assert bool(judge.runs) is allow_code
    before = identity(config)
    judge.script.write_text(judge.script.read_text() + "#")
    assert identity(config) != before
