"""The metric of the gate: any metric of the recipe, programs included."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from nmt_core.config import PipelineConfig
from nmt_core.evaluate.judges import GateJudge, judge
from nmt_core.evaluate.quality import against_champion, suite_against_champion
from nmt_core.evaluate.sentences import write_translations
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.judges.files import identity
from nmt_core.judges.impartial import partial_judges
from nmt_core.judges.lines import ProgramError
from nmt_core.scoring import SentenceStatistics
from nmt_core.search.translation import Translation
from nmt_core.store.artifacts import REPORT, Artifact, Manifest, fingerprint_of, now

TEST = TestSet("news", [f"Satz {number}" for number in range(40)], [f"sentence {number}" for number in range(40)])
LONG, SHORT = [f"{text} indeed" for text in TEST.references], TEST.references
COUNTS = "import json, sys\nopen({log!r}, 'a').write('ran\\n')\n" + (
    "for line in sys.stdin: print(len(json.loads(line)['translation']))\n"
)


class Program:
    """A judge that counts characters, and how often it ran."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.file = folder / "count.py"
        self.file.write_text(COUNTS.format(log=str(self.log)))
        self.command = f"{shlex.quote(sys.executable)} {shlex.quote(str(self.file))}"

    @property
    def runs(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def recipe(*metrics: Any, **registry: Any) -> PipelineConfig:
    values = {"name": "tiny", "corpus": {"toy": {}}, "evaluate": {"metrics": metrics, "interval_samples": 0}}
    return PipelineConfig.model_validate(values | {"registry": registry})


def gate_judge(config: PipelineConfig, *, allow_code: bool = True) -> GateJudge:
    return GateJudge(config.registry.metric, config.evaluate, "en", allow_code=allow_code)


@pytest.mark.parametrize("lower_is_better", [False, True])
def test_a_program_decides_and_its_direction_counts(program: Program, lower_is_better: bool) -> None:
    metric = {"name": "length", "command": program.command, "lower_is_better": lower_is_better}
    config = recipe(metric, metric="length")
    statistics = gate_judge(config).statistics
    both = statistics(TEST, SHORT), statistics(TEST, LONG)
    check = against_champion("news", both, config.registry, is_main=True)
    assert check.passed is not lower_is_better and check.metric == "length"
    assert check.difference == pytest.approx(len(" indeed"))
    lost = suite_against_champion("news+numbers", both, config.registry)
    assert lost.passed is not lower_is_better
    assert both[0].of_sentences([0, 3]).score == len("sentence 0")


def test_metrics_of_sacrebleu_decide_too() -> None:
    for name in ("TER", "chrF++", "BLEU"):
        config = recipe(*({"TER", "chrF++"} & {name}), metric=name)
        expected = SentenceStatistics(name, LONG, TEST.references, "en")  # type: ignore[arg-type]
        assert gate_judge(config).statistics(TEST, LONG).score == expected.score


def test_a_metric_that_is_not_in_the_recipe_is_refused() -> None:
    with pytest.raises(ValueError, match=r"registry.metric='COMET' is none of BLEU, chrF, chrF\+\+, TER: correct it"):
        recipe("TER", metric="COMET")


def test_a_program_does_not_judge_twice_what_it_judged_in_the_evaluation(program: Program, tmp_path: Path) -> None:
    config = recipe({"name": "length", "command": program.command}, metric="length")
    evaluated = evaluation(config, tmp_path / "evaluate")
    assert program.runs == 1
    stored = gate_judge(config).statistics(TEST, LONG, evaluated)
    assert program.runs == 1 and stored.score == sum(map(len, LONG)) / 40
    gate_judge(config).statistics(TEST, SHORT, evaluated)
    assert program.runs == 2, "other translations"
    program.file.write_text(program.file.read_text() + "\n")
    gate_judge(config).statistics(TEST, LONG, evaluated)
    assert program.runs == 3, "another program"


def evaluation(config: PipelineConfig, folder: Path) -> Artifact:
    """Store what `evaluate` stores of translations that are LONG."""
    judged = judge(TEST, LONG, config.evaluate, "en", allow_code=True, notice=print)
    folder.mkdir()
    translations = [Translation(text=text, score=-1.0, tokens=2, status="ok") for text in LONG]
    write_translations(folder, TEST, translations, judged.numbers)
    (folder / REPORT).write_text(f'{{"scores": [{judged.scores[0].model_dump_json()}]}}')
    values = {"stage": "evaluate", "config": identity(config), "inputs": {}}
    manifest = Manifest(
        stage="evaluate",
        fingerprint=fingerprint_of(values),
        identity=values,
        recipe="tiny",
        outputs={},
        versions={},
        seconds=0,
        host="here",
        created=now(),
    )
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    return Artifact("evaluate", manifest.fingerprint, folder)


def test_a_program_that_is_not_allowed_cannot_decide(program: Program) -> None:
    config = recipe({"name": "length", "command": program.command}, metric="length")
    with pytest.raises(ProgramError, match="NMT_ALLOW_CODE forbids"):
        gate_judge(config, allow_code=False).statistics(TEST, LONG)
    assert program.runs == 0


@pytest.mark.parametrize(
    ("filtering", "judging", "checkpoint", "shared"),
    [
        ("qe --model /models/kiwi --batch 8.5", "python judge.py --batch 8.5", "/models/kiwi", "/models/kiwi"),
        ("python qe.py", "/opt/python qe.py", "", "qe.py"),
        ("bleurt", "bleurt", "", "bleurt"),
        ("qe --model=a/kiwi", "qe --model=a/comet", "", None),
        ("python qe.py", "python judge.py", "", None),
    ],
)
def test_a_judge_that_chose_the_training_text_is_named(
    filtering: str, judging: str, checkpoint: str, shared: str | None
) -> None:
    metric = {"name": "judge", "command": judging, "checkpoint": checkpoint}
    config = recipe(metric).model_copy(
        update={
            "clean": PipelineConfig.model_validate(
                {
                    "name": "x",
                    "corpus": {"toy": {}},
                    "clean": {"scores": [{"scorer": "qe", "command": filtering, "min_score": 0.5}]},
                }
            ).clean
        }
    )
    found = partial_judges(config)
    assert len(found) == (shared is not None)
    if shared:
        assert f"with the same {shared}, chose the training text" in found[0] and found[0].startswith("judge judges")


def test_a_judge_that_chose_the_weights_is_named() -> None:
    def found(stop_on: str, gate: str) -> list[str]:
        train = {"dev_metric": "TER", "dev_sentences": 5, "stop_on": stop_on}
        values = {"name": "tiny", "corpus": {"toy": {}}, "train": train, "evaluate": {"metrics": ["TER"]}}
        return partial_judges(PipelineConfig.model_validate(values | {"registry": {"metric": gate}}))

    assert found("dev_metric", "TER")[0].startswith("TER judges the translations in the gate")
    assert found("dev_metric", "BLEU") == found("dev_loss", "TER") == []


def test_chrf_is_no_impartial_judge_of_minimum_bayes_risk() -> None:
    config = recipe("chrF++")
    assert partial_judges(config) == []
    reranked = config.model_copy(update={"search": config.search.model_copy(update={"rerank": "mbr"})})
    (sentence,) = partial_judges(reranked)
    assert sentence.startswith("Scores by chrF and chrF++ favour this model, because search.rerank=mbr chose its")


def test_a_judge_that_chose_the_translations_is_named() -> None:
    def found(command: str) -> list[str]:
        search = {"rerank": "judge", "judge": {"name": "kiwi", "command": "python kiwi.py"}}
        metrics = [{"name": "other", "command": command}]
        values = {"name": "tiny", "corpus": {"toy": {}}, "search": search, "evaluate": {"metrics": metrics}}
        return partial_judges(PipelineConfig.model_validate(values))

    (always,) = found("python comet.py")
    assert always.startswith("All scores are of translations that kiwi (search.judge) chose. The registered model")
    same, again = found("python3 kiwi.py --gpus 1")
    assert same.startswith("other judges the translations, and search.judge, with the same kiwi.py, chose them")
    assert again == always
