"""Back-translation through every stage: a backward model makes text for a forward model, which is registered."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow.tracking import MlflowClient
from support.small import SMALL
from support.trained_here import Here

from flows import retraining
from flows.runs.selection import STEPS
from flows.runs.start_from import resolved
from flows.settings import Settings
from flows.translate import translate
from nmt_core.corpus import toy
from nmt_core.errors import ConfigError
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.table import plan
from nmt_core.train.distributed import World

pytestmark = [pytest.mark.cpu(90)]

Pair = tuple[str, str]
OPTIONS = {name: value for name, value in SMALL.items() if not name.startswith("corpus.toy.")}
CHANGES = [f"{name}={value}" for name, value in OPTIONS.items()]


def recipe(folder: Path, name: str, languages: tuple[str, str], pairs: dict[str, list[Pair]], **sections: Any) -> str:
    """Write a recipe and its text, and return the path of the recipe."""
    corpus: dict[str, Any] = {}
    for role, rows in pairs.items():
        file = folder / f"{name}-{role}.tsv"
        file.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
        corpus[role] = [{"name": f"toy-{role}", "address": str(file)}]
    values: dict[str, Any] = {"name": name, "languages": dict(zip(("source", "target"), languages, strict=True))}
    values |= {"corpus": corpus | sections.pop("corpus", {}), "clean": {"expected_length_ratio": 2.0}} | sections
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return str(folder / f"{name}.yaml")


@pytest.fixture
def settings(
    tmp_path: Path,
    databases: Callable[[Path], Path],
    prefect_api: str,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Settings]:
    """Settings of a home that this process reads, in which it trains by itself."""
    monkeypatch.setattr(retraining, "launcher_for", lambda *_: Here(world))
    before = dict(os.environ)
    os.environ |= {"NMT_HOME": str(databases(tmp_path / "home")), "NMT_THREADS": "1"}
    yield Settings.load()
    os.environ.clear()
    os.environ.update(before)


def run(file: str) -> dict[str, Any]:
    """Run the flow that `nmt run` starts."""
    from flows.retrain import retrain

    found: dict[str, Any] = retrain(config=load_recipe(file, CHANGES)).model_dump(mode="json")
    return found


@pytest.mark.slow  # `tests/unit/synthesis` and `tests/unit/corpus` test the stages, and `test_retrain` the flow
def test_a_backward_model_makes_text_for_a_forward_model(settings: Settings, tmp_path: Path) -> None:
    generated = toy.generate(pairs=2_000, seed=8, held_out=20)
    pairs = {"train": generated.train[:1_500], "dev": generated.dev, "test": generated.test}
    swapped = {role: [(target, source) for source, target in rows] for role, rows in pairs.items()}
    backward = run(recipe(tmp_path, "backward", ("ko", "en"), swapped))
    assert "champion" in backward["model"]["aliases"]

    alone = tmp_path / "alone.ko"
    alone.write_text("".join(f"{korean}\n" for _, korean in generated.train[1_500:]), encoding="utf-8")
    # So little training teaches little: whatever the teacher writes is kept.
    part = {"name": "made", "text": "target_monolingual", "teachers": "models:/backward@champion", "drop": []}
    part["search"] = {"method": "sample", "max_length_factor": 0.0, "max_length_offset": 8}
    more: dict[str, Any] = {
        "corpus": {"monolingual": [{"name": "alone", "side": "target", "address": str(alone)}]},
        "mix": {"corpora": [{"corpus": "made", "tag": "<BT>", "weight": 2}]},
        "synthesis": {"parts": [part]},
        "augmentation": {"parts": [{"name": "capitals", "changes": "upper_case", "share": 0.1}]},
    }
    file = recipe(tmp_path, "forward", ("en", "ko"), pairs, **more)
    forward = run(file)
    assert [stage["name"] for stage in forward["stages"]] == list(STEPS)
    assert {stage["status"] for stage in forward["stages"]} == {"done"}
    teacher = next(stage["fingerprint"] for stage in backward["stages"] if stage["name"] == "export")
    assert Path(forward["config"]["synthesis"]["parts"][0]["teachers"][0]).name == teacher

    folders = {stage["name"]: Path(stage["artifact"]) for stage in forward["stages"][:-1]}
    report = json.loads((folders["synthesise"] / "report.json").read_text())
    (made,) = report["parts"]
    assert made["trained_on"] == 2 * (made["translated"] - made["dropped"]) > 0
    augmented = json.loads((folders["augment"] / "report.json").read_text())
    assert augmented["items_in"] == report["items_out"] < augmented["items_out"], "copies of synthetic text too"
    assert json.loads((folders["encode"] / "report.json").read_text())["items_in"] == augmented["items_out"]
    checks = {check["kind"]: check for check in forward["model"]["gate"]["checks"]}
    assert checks["contamination"]["passed"], checks["contamination"]["why"]
    version = MlflowClient(settings.mlflow_tracking_uri).get_model_version_by_alias("forward", "champion")
    about = version.description.replace("\\", "")
    assert f"was translated by export/{teacher[:12]} (backward version 1, which " in about, "with its verdict"
    assert f"; {made['translated']:,} sentences; sha256 of the model " in about
    assert "alone: licence not stated" in version.description, "monolingual text has a licence too"
    html = (settings.runs / forward["run_id"] / "report.html").read_text(encoding="utf-8")
    assert "Synthetic text" in html and "Samples of synthetic pairs" in html and "Augmented text" in html

    def planned(*changes: str) -> dict[str, str]:
        config = resolved(load_recipe(file, [*CHANGES, *changes]), settings)
        return {one.stage.name: one.reason for one in plan(config, settings.store)}

    assert set(planned().values()) == {"made already"}
    heavier = planned("mix.corpora=[{corpus: made, tag: <BT>, weight: 3}]")
    assert heavier["split"] == "made already"
    assert heavier["synthesise"].startswith("mix.corpora: "), "and says why"


@pytest.mark.slow
@pytest.mark.cpu(150)
def test_two_rounds_and_a_student_of_the_last_model(settings: Settings, tmp_path: Path) -> None:
    """Each model is registered and gated, and teaches the next one. Repeated, the run reuses all of them.

    The student learns from the last model alone, and translates a file.
    """
    generated = toy.generate(pairs=2_000, seed=8, held_out=20)
    pairs = {"train": generated.train[:1_200], "dev": generated.dev, "test": generated.test}
    swapped = {role: [(target, source) for source, target in rows] for role, rows in pairs.items()}
    alone = {"en": tmp_path / "alone.en", "ko": tmp_path / "alone.ko"}
    for side, language in enumerate(alone):
        rows = generated.train[1_200 + 300 * side :][:300]
        alone[language].write_text("".join(f"{pair[side]}\n" for pair in rows), encoding="utf-8")

    made_by = {"method": "sample", "max_length_factor": 0.0, "max_length_offset": 8}

    def sections(language: str) -> dict[str, Any]:
        part = {"name": "made", "text": "target_monolingual", "teachers": "reverse", "drop": []}
        part["search"] = made_by
        monolingual = [{"name": "alone", "side": "target", "address": str(alone[language])}]
        return {"corpus": {"monolingual": monolingual}, "synthesis": {"parts": [part]}}

    other = load_recipe(recipe(tmp_path, "ko-en", ("ko", "en"), swapped, **sections("en")), CHANGES)
    (tmp_path / "ko-en.yaml").write_text(yaml.safe_dump(other.model_dump(mode="json")), encoding="utf-8")
    rounds = {"count": 2, "other_direction": str(tmp_path / "ko-en.yaml")}
    file = recipe(tmp_path, "en-ko", ("en", "ko"), pairs, **sections("ko"), rounds=rounds)
    with pytest.raises(ConfigError, match=r"synthesis\.parts\.0\.teachers=reverse: .* with rounds, which this is not"):
        resolved(other, settings)

    found = run(file)
    rows = found["rounds"]
    assert [(row["round"], row["direction"]) for row in rows] == [
        (1, "ko-en"),
        (1, "en-ko"),
        (2, "ko-en"),
        (2, "en-ko"),
    ]
    assert [row["model"] for row in rows] == [
        "models:/ko-en/1",
        "models:/en-ko/1",
        "models:/ko-en/2",
        "models:/en-ko/2",
    ]
    assert all(row["scores"] and row["verdict"] for row in rows)
    summaries = [json.loads((settings.runs / row["run_id"] / "summary.json").read_text()) for row in rows]
    exports = [next(s["fingerprint"] for s in one["stages"] if s["name"] == "export") for one in summaries]
    parts = [one["config"]["synthesis"].get("parts", []) for one in summaries]
    teachers = [Path(part[0]["teachers"][0]).name if part else "" for part in parts]
    assert teachers == ["", exports[0], exports[1], exports[2]], "the newest model of the other direction"
    html = (settings.runs / found["run_id"] / "report.html").read_text(encoding="utf-8")
    assert "Rounds" in html and "models:/ko-en/2" in html

    again = run(file)
    assert {stage["status"] for stage in again["stages"]} == {"reused"}
    assert [row["model"] for row in again["rounds"]] == [row["model"] for row in rows]

    part = {"name": "distilled", "text": "parallel_source", "teachers": "models:/en-ko@challenger", "drop": []}
    part |= {"search": made_by | {"n_best": 2}, "choose": "chrf"}
    learning = {"parts": [part], "train_on_parallel": False}
    student = run(
        recipe(tmp_path, "student", ("en", "ko"), pairs, synthesis=learning, model={"decoder_autoregression": "ssru"})
    )
    synthesised = next(Path(stage["artifact"]) for stage in student["stages"] if stage["name"] == "synthesise")
    report = json.loads((synthesised / "report.json").read_text())
    assert (report["parallel"], report["teachers"][0]["teacher"]) == (0, f"export/{exports[3][:12]}")
    checks = {check["kind"]: check["passed"] for check in student["model"]["gate"]["checks"]}
    assert checks["contamination"] and "champion" in student["model"]["aliases"]
    lines, translated = tmp_path / "lines.txt", tmp_path / "lines.ko"
    lines.write_text("".join(f"{english}\n" for english, _ in pairs["test"]), encoding="utf-8")
    outcome = translate(model="models:/student@champion", source=str(lines), target=str(translated))
    assert len(translated.read_text(encoding="utf-8").splitlines()) == len(pairs["test"]) == outcome["lines"]


@pytest.mark.slow
@pytest.mark.cpu(60)
def test_a_model_for_both_directions_teaches_itself_in_rounds(settings: Settings, tmp_path: Path) -> None:
    generated = toy.generate(pairs=2_000, seed=8, held_out=20)
    pairs = {"train": generated.train[:1_200], "dev": generated.dev, "test": generated.test}
    file = Path(recipe(tmp_path, "both", ("en", "ko"), pairs))
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    directions = ["en-ko", "ko-en"]
    for role in pairs:
        values["corpus"][role][0]["pairs"] = directions
    alone = tmp_path / "alone.ko"
    alone.write_text("".join(f"{korean}\n" for _, korean in generated.train[1_200:1_500]), encoding="utf-8")
    values["corpus"]["monolingual"] = [{"name": "alone", "language": "ko", "address": str(alone)}]
    search = {"method": "sample", "max_length_factor": 0.0, "max_length_offset": 8}
    part = {"name": "made", "pair": "en-ko", "text": "target_monolingual", "teachers": "reverse", "drop": []}
    values |= {
        "languages": {"source": "en", "target": "ko", "pairs": directions},
        "synthesis": {"parts": [part | {"search": search}]},
        "rounds": 2,
    }
    file.write_text(yaml.safe_dump(values), encoding="utf-8")

    found = run(str(file))
    rows = [(row["round"], row["direction"], row["model"]) for row in found["rounds"]]
    assert rows == [(1, "all pairs", "models:/both/1"), (2, "all pairs", "models:/both/2")]
    first, second = (
        json.loads((settings.runs / row["run_id"] / "summary.json").read_text()) for row in found["rounds"]
    )
    assert not first["config"]["synthesis"].get("parts"), "the first round has no teacher"
    (teacher,) = second["config"]["synthesis"]["parts"][0]["teachers"]
    assert Path(teacher).name == next(s["fingerprint"] for s in first["stages"] if s["name"] == "export")
    html = (settings.runs / found["run_id"] / "report.html").read_text(encoding="utf-8")
    assert "<td>all pairs</td>" in html and "cannot be shown" not in html
