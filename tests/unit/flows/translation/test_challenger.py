"""A challenger must translate the languages of the job, whether either model knows one pair of them or many."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.facts import raises

from flows.settings import Settings
from flows.translation.job import translate_job
from flows.translation.request import TranslationRequest
from nmt_core.errors import ConfigError

LINES = ["the cat sees a dog.", "a big house", "to it", "now"] * 5


@pytest.fixture
def many(into_many: Callable[..., Path], tiny_bundle: Path, tmp_path: Path) -> Path:
    return into_many(tiny_bundle, tmp_path / "many", "source", ["en-ko", "ko-en", "en-de"])


def run(model: Path, shadow: Path, folder: Path, settings: Settings, **options: Any) -> dict[str, Any]:
    source = folder / "in.tsv"
    source.write_text("text\tlang\n" + "".join(f"{line}\tko\n" for line in LINES))
    request = TranslationRequest(
        str(model), str(source), str(folder / "out.jsonl"), column="text", beam_size=1, shadow=str(shadow), share=1.0,
        **options,
    )  # fmt: skip
    return translate_job(request, settings, lambda done, total, note: None, pytest.fail)


@pytest.mark.cpu(25)
def test_a_model_for_many_pairs_is_compared_with_a_model_for_one_of_them(
    many: Path, tiny_bundle: Path, other_bundle: Path, settings: Settings, tmp_path: Path
) -> None:
    by_one = run(many, other_bundle, tmp_path, settings, to="ko")["shadow"]
    assert by_one["problem"] == "" and by_one["lines"] == len(LINES)
    by_many = run(tiny_bundle, many, tmp_path, settings, job=str(tmp_path / "job"))["shadow"]
    assert by_many["problem"] == "" and by_many["lines"] == len(LINES)


def test_a_challenger_for_other_languages_is_refused_by_name(
    many: Path, other_bundle: Path, settings: Settings, tmp_path: Path
) -> None:
    with raises(ConfigError, f"--shadow {other_bundle}", "translates en-ko", "the job is ko-en"):
        run(many, other_bundle, tmp_path, settings, to="en")
    with raises(ConfigError, f"--shadow {other_bundle}", "translates en-ko", "the job is ko-en"):
        run(many, other_bundle, tmp_path, settings, to="ko", to_column="lang")
    assert not (tmp_path / "out.jsonl").exists()
