"""The gate on a real registry, with bundles that are really exported, fetched and translated with."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flows.registry.champions import Author, Champions
from flows.registry.gate import pass_gate
from flows.registry.shadows import keep_result
from flows.runs.summary import RegisteredModel
from nmt_core.bundle.folder import BUNDLE_FILE, sha256_of
from nmt_core.config import ModelConfig, PipelineConfig
from nmt_core.evaluate.verdict import Check, CheckKind
from nmt_core.export import speed
from nmt_core.jobs.folder import Done
from nmt_core.jobs.shadow_result import ShadowResult
from nmt_core.models.transformer import Transformer
from nmt_core.search.shortlist import Shortlist
from nmt_core.store.artifacts import MANIFEST, REPORT, Artifact, describe_outputs
from nmt_core.tokenizer.tokenizer import Tokenizer
from nmt_core.translator import Translator

MANY_TIMES_SLOWER = ModelConfig(d_model=256, d_ff=2048, num_heads=8, encoder_layers=3, decoder_layers=3)
HAND = Author(by="hand", why="it swears", who="me@here")


@pytest.fixture(autouse=True)
def three_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are timed for three rounds, and not for the seconds that small differences require."""
    monkeypatch.setattr(speed, "_SECONDS", 0.0)
    monkeypatch.setattr(speed, "_MOST_SECONDS", 0.0)


@pytest.fixture(scope="module")
def slow_bundle(tiny_tokenizer: Tokenizer, bundle_of: Callable[[Transformer], Path]) -> Path:
    torch.manual_seed(1)
    return bundle_of(Transformer(MANY_TIMES_SLOWER, tiny_tokenizer.vocab_size, 2_048).eval())


@pytest.fixture(scope="module")
def rich_bundle(other_model: Transformer, bundle_of: Callable[..., Path]) -> Path:
    """Bundle of another model, also in int8, with a shortlist that holds every piece."""
    pieces = np.arange(other_model.vocab_size, dtype=np.uint8)
    return bundle_of(other_model, int8=True, shortlist=Shortlist(pieces, pieces[:, None], len(pieces)))


@pytest.fixture(scope="module")
def with_champion(
    make_registry: Callable[[Path], Any], tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, RegisteredModel]:
    """A registry with a champion, to be copied."""
    registry = make_registry(tmp_path_factory.mktemp("with-champion"))
    config = registry.config()
    split = registry.split(own=registry.references(tiny_bundle))
    registered = registry.register(registry.candidate(config, tiny_bundle, split), config)
    assert registered.verdict.startswith("the first champion: ")
    return registry, registered


@pytest.fixture
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Registry that is empty, or holds the champion if the test asks for it."""
    if "champion" in request.fixturenames:
        return request.getfixturevalue("with_champion")[0].copy(tmp_path / "home")
    return request.getfixturevalue("make_registry")(tmp_path)


@pytest.fixture
def champion(with_champion: tuple[Any, RegisteredModel]) -> RegisteredModel:
    """Version 1, the champion that later versions are compared with. On its own test set it is perfect."""
    return with_champion[1]


def failed(model: RegisteredModel) -> list[CheckKind]:
    assert model.gate
    return [check.kind for check in model.gate.failed]


def check(model: RegisteredModel, kind: CheckKind) -> Check:
    assert model.gate
    return next(one for one in model.gate.checks if one.kind == kind)


def test_a_better_model_replaces_the_champion_and_the_verdict_stays_with_it(
    registry: Any, champion: RegisteredModel, other_bundle: Path
) -> None:
    config = registry.config()
    split = registry.split(news=registry.references(other_bundle))
    better = registry.register(registry.candidate(config, other_bundle, split), config)
    assert sorted(better.aliases) == ["challenger", "champion"]
    assert better.verdict.startswith("replaces version 1: chrF of news is 100.00")
    assert failed(better) == []
    quality = check(better, "quality")
    assert quality.champion is not None and quality.champion < 90, "translated anew: the champion never saw this set"
    assert check(better, "contamination").why.startswith("3 training pairs shared text")
    version = registry.client.get_model_version("test", "2")
    assert version.tags["nmt.verdict"] == better.verdict
    assert json.loads(version.tags["nmt.verdict.json"]) == better.gate.model_dump(mode="json")
    (markdown,) = [file for file in registry.home.glob("mlflow/**/verdict.md") if "version 2" in file.read_text()]
    assert "| chrF of news is significantly better | passed |" in markdown.read_text()
    again = registry.register(registry.candidate(config, other_bundle, split), config)
    assert (again.version, again.verdict, again.reused) == ("2", "is champion already", True)
    assert again.gate.checks == better.gate.checks


def test_one_that_is_only_as_good_stays_challenger(registry: Any, champion: RegisteredModel, tiny_bundle: Path) -> None:
    config = registry.config(evaluate={"samples": 1})  # other translations are none: another evaluation of the same
    split = registry.split(own=registry.references(tiny_bundle))
    equal = registry.register(registry.candidate(config, tiny_bundle, split), config)
    assert (equal.version, equal.aliases) == ("2", ["challenger"])
    assert failed(equal) == ["quality"]
    assert "significantly neither better nor worse" in equal.verdict


def test_one_that_is_worse_on_a_further_test_set_stays_challenger(
    registry: Any, champion: RegisteredModel, tiny_bundle: Path, other_bundle: Path
) -> None:
    config = registry.config()
    split = registry.split(news=registry.references(other_bundle), web=registry.references(tiny_bundle))
    model = registry.register(registry.candidate(config, other_bundle, split), config)
    assert model.aliases == ["challenger"]
    assert failed(model) == ["quality"] and model.gate
    assert [(one.test_set, one.passed) for one in model.gate.checks if one.kind == "quality"] == [
        ("news", True),
        ("web", False),
    ]
    assert model.verdict.startswith("stays challenger: chrF of web is")


@pytest.mark.cpu(30)
def test_a_suite_that_gets_worse_refuses_a_better_model(
    registry: Any, champion: RegisteredModel, tiny_bundle: Path, other_bundle: Path
) -> None:
    """The champion is perfect on the sentences of the suite, and the challenger on all others."""
    suite = {"kind": "negation", "words": ["house"], "min_sentences": 5}
    config = registry.config(evaluate={"suites": [suite, "numbers", "upper_case"]})
    ours, theirs = registry.references(other_bundle), registry.references(tiny_bundle)
    of_suite = ["house" in source.split() for source in registry.sentences]
    mixed = [old if is_house else new for old, new, is_house in zip(theirs, ours, of_suite, strict=True)]
    split = registry.split(news=mixed)
    model = registry.register(registry.candidate(config, other_bundle, split), config)
    assert model.aliases == ["challenger"] and model.gate
    checks = {one.test_set: one for one in model.gate.checks if one.kind == "quality"}
    assert list(checks) == ["news", "news+negation", "news+upper_case"], "no sentence has a number"
    assert [one.passed for one in checks.values()] == [True, False, True]
    assert checks["news+negation"].champion == 100
    assert "stays challenger: chrF of news+negation is" in model.verdict
    lenient = registry.config(evaluate={"suites": [suite]}, registry={"suites": "report"})
    reported = registry.register(registry.candidate(lenient, other_bundle, split), lenient)
    assert "champion" in reported.aliases


def test_kept_translations_of_the_same_text_are_used(
    registry: Any, champion: RegisteredModel, tiny_bundle: Path, other_bundle: Path
) -> None:
    """The stored translations of the champion contain nothing but q. For another test set, it translates again."""
    (kept,) = registry.settings.store.root.glob("evaluate/*/own.hypotheses.txt")
    kept.write_bytes(re.sub(rb"[^\n]", b"q", kept.read_bytes()))
    manifest = Artifact.at(kept.parent).manifest().model_copy(update={"outputs": describe_outputs(kept.parent)})
    (kept.parent / MANIFEST).write_text(manifest.model_dump_json())  # else it were damaged, and not used
    config = registry.config()
    own = registry.split(own=registry.references(tiny_bundle))
    first = registry.register(registry.candidate(config, other_bundle, own), config)
    assert check(first, "quality").champion == 0, "no q in the references"
    registry.client.set_registered_model_alias("test", "champion", "1")
    other = registry.split(own=registry.references(tiny_bundle)[::-1])
    second = registry.register(registry.candidate(config, other_bundle, other), config)
    assert check(second, "quality").champion != 0


@pytest.mark.parametrize(
    ("sections", "kind"),
    [
        ({"clean": {"decontaminate": False}}, "contamination"),
        ({"evaluate": {"must_translate": [{"source": "a dog", "contains": ["Getriebe"]}]}}, "sentences"),
        ({"registry": {"built_in_sentences": "all"}, "search": {"copy_unknown": "never"}}, "sentences"),
    ],
)
def test_a_better_model_with_a_fault_stays_challenger(
    registry: Any, champion: RegisteredModel, other_bundle: Path, sections: dict[str, Any], kind: CheckKind
) -> None:
    config = registry.config(**sections)
    split = registry.split(news=registry.references(other_bundle))
    model = registry.register(registry.candidate(config, other_bundle, split), config)
    assert model.aliases == ["challenger"]
    assert set(failed(model)) == {kind}
    assert check(model, "quality").passed


def test_parity_that_was_not_measured_stays_challenger(
    registry: Any, champion: RegisteredModel, other_bundle: Path
) -> None:
    config = registry.config()
    candidate = registry.candidate(config, other_bundle, registry.split(news=registry.references(other_bundle)))
    (candidate.export.path / REPORT).write_text("{}")
    model = registry.register(candidate, config)
    assert (model.aliases, failed(model)) == (["challenger"], ["parity"])


def test_only_a_model_that_is_fast_enough_takes_the_champions_place(
    registry: Any, champion: RegisteredModel, slow_bundle: Path
) -> None:
    split = registry.split(news=registry.references(slow_bundle))
    strict, lax = registry.config(registry={"max_slowdown": 0.2}), registry.config()
    slower = registry.register(registry.candidate(strict, slow_bundle, split), strict)
    assert (slower.aliases, failed(slower)) == (["challenger"], ["speed"])
    assert slower.verdict.startswith("stays challenger: 0.")
    assert "registry.max_slowdown=0.2 is allowed" in slower.verdict
    allowed = registry.register(registry.candidate(lax, slow_bundle, split), lax)
    assert (allowed.version, "champion" in allowed.aliases) == (slower.version, True)


@pytest.mark.parametrize(
    ("search", "way"),
    [
        ({"shortlist": "always", "precision": "fp32"}, "greedy search in fp32 with the shortlist"),
        pytest.param({"precision": "int8"}, "greedy search in int8", marks=pytest.mark.slow),
        pytest.param({"beam_size": 2}, "beam 2 in int8", marks=pytest.mark.slow),
        ({"precision": "fp32"}, ""),
    ],
)
def test_each_is_timed_as_it_is_served(
    registry: Any, champion: RegisteredModel, rich_bundle: Path, tiny_bundle: Path, search: dict[str, Any], way: str
) -> None:
    """Neither bundle has all that the search of the other requires."""
    export = {"shortlist": "shortlist" in search}
    config = registry.config(search=registry.search.model_dump() | search, export=export)
    references = [one.text for one in Translator.load(rich_bundle, config.search).translate(registry.sentences)]
    rich = registry.register(registry.candidate(config, rich_bundle, registry.split(news=references)), config)
    assert (failed(rich), "champion" in rich.aliases) == ([], True)
    plain = "greedy search in fp32"
    beside = f"({way}, the champion {plain}; 1 thread)" if way else f"({plain}; 1 thread)"
    assert check(rich, "speed").why.endswith(f"tokens per second as version 1 on this machine {beside}")
    config = registry.config(evaluate={"samples": 1})
    split = registry.split(own=registry.references(tiny_bundle))
    poor = registry.register(registry.candidate(config, tiny_bundle, split), config)
    beside = f"({plain}, the champion {way}; 1 thread)" if way else f"({plain}; 1 thread)"
    assert check(poor, "speed").why.endswith(f"tokens per second as version 2 on this machine {beside}")


def test_a_challenger_that_cannot_be_loaded_as_it_would_be_served_stays_that(
    registry: Any, champion: RegisteredModel, other_bundle: Path
) -> None:
    split = registry.split(news=registry.references(other_bundle))
    candidate = registry.candidate(registry.config(), other_bundle, split)
    config = registry.config(search=registry.search.model_dump() | {"precision": "int8"})
    model = registry.register(candidate, config)
    assert (model.aliases, failed(model)) == (["challenger"], ["speed"])
    assert "not compared (the challenger: search.precision=int8 on cpu: the model has fp32" in model.verdict


@pytest.mark.parametrize(
    ("name", "former", "damaged", "problem"),
    [
        ("config.json", '"format":3', '"format":2', "format 2 is unknown"),
        ("search.json", '"precision": "fastest"', '"precision": "int8"', "search.precision=int8 on cpu"),
    ],
)
def test_a_champion_that_can_no_longer_be_used_is_compared_by_what_it_translated(
    registry: Any, champion: RegisteredModel, other_bundle: Path, name: str, former: str, damaged: str, problem: str
) -> None:
    (file,) = registry.home.glob(f"mlflow/**/bundle/{name}")
    assert former in file.read_text()
    file.write_text(file.read_text().replace(former, damaged))
    config = registry.config()
    split = registry.split(news=registry.references(other_bundle))
    unknown = registry.register(registry.candidate(config, other_bundle, split), config)
    assert (unknown.aliases, failed(unknown)) == (["challenger"], ["quality"])
    assert problem in unknown.verdict and "by hand" in unknown.verdict
    assert check(unknown, "speed").why.startswith("speed is not compared (version 1: ")
    assert "the champion cannot translate them (" in check(unknown, "sentences").why


@pytest.mark.parametrize("lost", ["the whole model", "one file"])
def test_a_champion_that_cannot_be_fetched_is_not_passed_by(
    registry: Any, tiny_bundle: Path, other_bundle: Path, lost: str
) -> None:
    """Its translations are still in the store, so its quality is known. Its speed and what it preserves are not."""
    config = registry.config()
    split = registry.split(own=registry.references(other_bundle))
    assert registry.register(registry.candidate(config, tiny_bundle, split), config).verdict.startswith(
        "the first champion"
    )
    (file,) = registry.home.glob("mlflow/**/bundle/spm.model")
    shutil.rmtree(file.parents[2]) if lost == "the whole model" else file.unlink()
    model = registry.register(registry.candidate(config, other_bundle, split), config)
    assert (model.aliases, failed(model)) == (["challenger"], ["speed", "sentences"])
    assert check(model, "quality").passed
    for refusal in model.gate.failed:
        assert refusal.why.startswith("the champion is not available (")
        assert "check that its files exist, and run it again" in refusal.why


def test_a_rolled_back_champion_comes_back_by_hand_alone(
    registry: Any, champion: RegisteredModel, other_bundle: Path
) -> None:
    config = registry.config()
    candidate = registry.candidate(config, other_bundle, registry.split(news=registry.references(other_bundle)))
    assert "champion" in registry.register(candidate, config).aliases
    champions = Champions(registry.client, "test", registry.settings)
    champions.roll_back(HAND)
    again = registry.register(candidate, config)
    assert (again.version, again.aliases, failed(again)) == ("2", ["challenger"], ["history"])
    assert "by me@here (it swears)" in again.verdict
    other = registry.config(evaluate={"samples": 1})
    anew = registry.register(registry.candidate(other, other_bundle, candidate.split), other)
    assert (anew.version, failed(anew)) == ("3", ["history"]), "the same bundle under another number"


def test_a_champion_that_changes_while_it_is_compared_is_compared_anew(
    registry: Any, champion: RegisteredModel, tiny_bundle: Path, other_bundle: Path
) -> None:
    config, settings = registry.config(), registry.settings
    candidate = registry.candidate(config, other_bundle, registry.split(news=registry.references(other_bundle)))
    registered = registry.register(candidate, config)
    third = registry.config(evaluate={"samples": 1})
    Champions(registry.client, "test", settings).roll_back(HAND)
    own = registry.split(own=registry.references(tiny_bundle))
    registry.register(registry.candidate(third, tiny_bundle, own), third)
    compared: list[str] = []

    class Busy(Champions):
        """Just before the first promotion, another process makes version 3 the champion."""

        def promote(self, version: str, author: Author, expected: str | None = None, **options: Any) -> bool:
            compared.append(expected or "")
            if len(compared) == 1:
                super().promote("3", HAND)
            return super().promote(version, author, expected, **options)

        def taken_back(self, version: Any, pair: str = "") -> None:
            """Version 2 was rolled back, and may return here."""

    version = registry.client.get_model_version("test", registered.version)
    verdict = pass_gate(config, candidate, version, Busy(registry.client, "test", settings), settings)
    assert verdict.promoted and (verdict.champion, compared) == ("3", ["1", "3"])
    current = Champions(registry.client, "test", settings).current
    assert current and str(current.version) == "2"


def test_the_first_model_must_pass_what_needs_no_champion(registry: Any, tiny_bundle: Path) -> None:
    config = registry.config(clean={"decontaminate": False})
    split = registry.split(own=registry.references(tiny_bundle))
    model = registry.register(registry.candidate(config, tiny_bundle, split), config)
    assert (model.aliases, failed(model)) == (["challenger"], ["contamination"])
    allowed = registry.config(clean={"decontaminate": False}, registry={"contamination": "allow"})
    assert "champion" in registry.register(registry.candidate(allowed, tiny_bundle, split), allowed).aliases


def test_without_the_test_sets_nothing_is_compared(
    registry: Any, champion: RegisteredModel, other_bundle: Path
) -> None:
    config: PipelineConfig = registry.config()
    candidate = registry.candidate(config, other_bundle, registry.split(news=registry.references(other_bundle)))
    shutil.rmtree(candidate.split.path)
    model = registry.register(replace(candidate, split=None), config)
    assert (model.aliases, failed(model)) == (["challenger"], ["quality", "contamination"])
    assert "no longer in the store" in model.verdict


@pytest.mark.cpu(30)
def test_a_better_model_that_was_worse_on_real_jobs_stays_challenger(
    registry: Any, champion: RegisteredModel, other_bundle: Path
) -> None:
    config = registry.config(registry={"shadow": "required", "shadow_lines": 100})
    split = registry.split(news=registry.references(other_bundle))
    candidate = registry.candidate(config, other_bundle, split)
    unseen = registry.register(candidate, config)
    assert failed(unseen) == ["shadow"] and "0 lines of real jobs" in check(unseen, "shadow").why
    statuses = {"champion_statuses": {"ok": 200}, "challenger_statuses": {"ok": 170, "repeats": 30}}
    sha256 = sha256_of(candidate.export.path / BUNDLE_FILE)
    values = {"model": "test", "version": "2", "sha256": sha256, "share": 0.1, "lines": 200, "challenger_bad_alone": 30}
    shadow = ShadowResult.model_validate(values | statuses)
    done = Done(fingerprint="0" * 32, number=1, model="test", model_version="1", statuses={}, outputs=(), shadow=shadow)
    assert keep_result(registry.settings, done) == ""
    worse = registry.register(candidate, config)
    assert failed(worse) == ["shadow"] and worse.aliases == ["challenger"]
    assert worse.verdict.startswith("stays challenger: 30 of 200 lines of 1 job have a bad status")
