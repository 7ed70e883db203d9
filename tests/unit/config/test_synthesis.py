"""Options of a synthetic corpus, and their requirements on the rest of the recipe."""

from typing import Any, get_args

import pytest
from support.facts import raises

from nmt_core.config import PipelineConfig, Rejected
from nmt_core.errors import ConfigError
from nmt_core.jobs.checks import FAULTS
from nmt_core.recipes.recipe import with_changes
from nmt_core.search.translation import WHOLE, Status

PART: dict[str, Any] = {"name": "made", "text": "parallel_source", "teachers": "a/bundle"}
MONOLINGUAL = [{"name": "news", "side": "target", "address": "news.ko"}]


def recipe(part: dict[str, Any], **sections: Any) -> PipelineConfig:
    corpus = {"train": [{"name": "mine", "address": "mine.tsv"}], "monolingual": MONOLINGUAL}
    values = {"name": "test", "corpus": corpus, "synthesis": {"parts": [PART | part]}}
    return with_changes(values | sections, "")


def test_every_fault_of_a_translation_can_be_dropped() -> None:
    no_fault_of_the_text = {*WHOLE, "terms_missing"}
    assert set(get_args(Rejected)) == ({*FAULTS} | {*get_args(Status)}) - no_fault_of_the_text
    assert recipe({}).synthesis.parts[0].drop == get_args(Rejected), "by default"


def test_one_teacher_needs_no_list_and_a_rule_of_the_mix_may_name_the_part() -> None:
    config = recipe({}, mix={"corpora": [{"corpus": "made", "tag": "<BT>"}]})
    assert config.synthesis.parts[0].teachers == ("a/bundle",)


@pytest.mark.parametrize(
    ("part", "facts"),
    [
        ({"teachers": []}, ["teachers"]),
        ({"teachers": ["a", "b", "a"]}, ["a twice", "remove one"]),
        ({"choose": "chrf"}, ["choose=chrf", r"set search\.n_best"]),
        ({"text": "target_monolingual", "choose": "bleu"}, ["target_monolingual lacks", "set text to parallel_source"]),
        ({"text": "source_monolingual"}, ["source language", r"corpus\.monolingual", "language: en"]),
        ({"text": "target_monolingual", "corpora": ["mine"]}, [r"synthesis\.parts\.0\.corpora", "'mine'", "news"]),
        ({"name": "mine"}, [r"synthesis\.parts\.0\.name='mine'", "another corpus"]),
        ({"name": "news"}, [r"synthesis\.parts\.0\.name='news'", "another corpus"]),
        ({"drop": ["bad"]}, ["drop", "copied"]),
        ({"search": {"rerank": "judge", "judge": {"command": "a"}}}, ["search.rerank=judge", r"clean\.scores"]),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(part: dict[str, Any], facts: list[str]) -> None:
    with raises(ConfigError, *facts):
        recipe(part)


def test_there_must_be_text_to_train_on() -> None:
    with raises(ConfigError, "train_on_parallel=false", r"name synthesis\.parts"):
        with_changes({"name": "test", "corpus": {"toy": {}}, "synthesis": {"train_on_parallel": False}}, "")
