"""A teacher, and a recipe whose part it translates."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.small import AT_EASE

from nmt_core.bundle.folder import BUNDLE_FILE
from nmt_core.config import PipelineConfig
from nmt_core.store.artifacts import Artifact

WHO = ("the cat", "the dog", "a big house", "the small cat", "a dog", "a small house")
WHAT = ("sees a dog", "runs to it", "and sees a small cat", "is big", "runs now", "sees it and runs")
ENGLISH = tuple(f"{who} {what} {number}." for number, who in enumerate(WHO) for what in WHAT)
KOREAN = tuple(f"나는 학생 {who} 이다 {number}." for number, who in enumerate((*WHO, *WHAT)))

Made = dict[str, Artifact]


@pytest.fixture(scope="session")
def backward_bundle(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny model, labelled as a model from Korean to English."""
    folder = tmp_path_factory.mktemp("backward") / "bundle"
    shutil.copytree(tiny_bundle, folder)
    described = json.loads((folder / BUNDLE_FILE).read_text())
    described["languages"] |= {"source": "ko", "target": "en"}
    (folder / BUNDLE_FILE).write_text(json.dumps(described))
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., PipelineConfig]:
    """A recipe from English into Korean, with monolingual text of both. Sections by name replace its own."""

    def write(name: str, lines: tuple[str, ...]) -> str:
        file = tmp_path / name
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(file)

    def make(parts: list[dict[str, Any]], **sections: Any) -> PipelineConfig:
        pairs = tuple(f"{english}\t나는 본다 {number}." for number, english in enumerate(ENGLISH))
        corpus = {
            "train": [{"name": "train", "address": write("train.tsv", pairs)}],
            "monolingual": [
                {"name": "korean", "side": "target", "address": write("korean.txt", KOREAN)},
                {"name": "english", "side": "source", "address": write("english.txt", ENGLISH[::-1])},
            ],
        }
        test = sections.pop("test", ())
        corpus |= {"test": [{"name": "news", "address": write("news.tsv", test)}]} if test else {}
        values = {"name": "test", "corpus": corpus, "clean": AT_EASE, "split": {"dev_pairs": 2, "test_pairs": 2}}
        return PipelineConfig.model_validate(values | sections | {"synthesis": {"parts": parts}})

    return make


@pytest.fixture
def run_until(run_until: Callable[..., Made]) -> Callable[..., Made]:
    """Run the first stages of a recipe, by default up to the one of this folder."""
    return lambda config, last="synthesise", store="store": run_until(config, last, store)
