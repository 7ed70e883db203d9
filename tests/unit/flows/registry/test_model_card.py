"""The card of a model: its training text, its scores and its failures."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.registry.candidate import Candidate
from flows.registry.model_card import LONGEST_DESCRIPTION, model_card
from nmt_core.config import LanguagesConfig, PipelineConfig
from nmt_core.corpus.index import INDEX, CorpusIndex, Role, StoredCorpus, StoredFile
from nmt_core.evaluate.sentences import write_translations
from nmt_core.evaluate.test_sets import TestSet
from nmt_core.search.translation import Translation
from nmt_core.store.artifacts import REPORT, Artifact

CONFIG = PipelineConfig.model_validate(
    {"name": "test", "description": "English to German.", "corpus": {"toy": {}, "licence": "CC0"}}
)
MORE = "- and more: see `model_card.md` in the model's files"


def corpus(name: str, role: Role = "train", licence: str = "", citation: str = "", url: str = "") -> StoredCorpus:
    return StoredCorpus(role=role, name=name, licence=licence, citation=citation, url=url, files=())


def download(folder: Path, *corpora: StoredCorpus, **skipped: str) -> Artifact:
    index = CorpusIndex(corpora=corpora, on_bad_corpus="skip", skipped=skipped)
    (folder / INDEX).write_text(index.model_dump_json())
    return Artifact("download", "0" * 32, folder)


def reported(folder: Path, stage: str, **values: Any) -> Artifact:
    """Make an artifact that consists of its report only."""
    (folder / stage).mkdir()
    (folder / stage / REPORT).write_text(json.dumps(values))
    return Artifact(stage, "5" * 32, folder / stage)


def recipe(**corpus: Any) -> PipelineConfig:
    values = {"name": "test", "description": "English to German.", "corpus": {"train": [{"name": "web"} | corpus]}}
    return PipelineConfig.model_validate(values)


def candidate(folder: Path, made: Artifact | None = None, clean: Artifact | None = None) -> Candidate:
    nothing = folder / "nothing"
    return Candidate(Artifact("export", "1" * 32, nothing), Artifact("evaluate", "2" * 32, nothing), made, clean)


def data_of(card: str) -> list[str]:
    """Return the lines about the data."""
    lines = card.splitlines()
    return lines[lines.index("## Trained on") : lines.index("## Limits") - 1]


def test_each_training_corpus_is_named_with_licence_page_and_citation(tmp_path: Path) -> None:
    made = download(
        tmp_path,
        corpus("web", licence="CC-BY 4.0", url="https://host.invalid", citation="@misc{them,\n  year = 2020}"),
        corpus("news", citation="@misc{them,\n  year = 2020}"),
        corpus("dev", "dev", licence="secret"),
        corpus("broken", licence="MIT", citation="@misc{nobody}"),
        gone="the server answered 404",
    )
    skipped = {"gone": "the server answered 404", "broken": "the file ends too early"}
    clean = reported(tmp_path, "clean", skipped=skipped)

    assert data_of(model_card(CONFIG, candidate(tmp_path, made, clean))) == [
        "## Trained on",
        "",
        "- web: CC-BY 4.0, <https://host.invalid>",
        "- news: CC0",
        "- gone: skipped, because it could not be fetched or read",
        "- broken: skipped, because it could not be fetched or read",
        "",
        "Please cite:",
        "",
        r"- @misc\{them, year = 2020\}",
    ]


def test_a_description_fits_into_mlflows_database_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    many = [corpus(f"corpus{number}", licence="L" * 50, citation=f"{number} " * 500) for number in range(90)]
    model = candidate(tmp_path, download(tmp_path, *many))

    text, whole = model_card(CONFIG, model, LONGEST_DESCRIPTION), model_card(CONFIG, model)

    assert 3_500 < len(text) <= 5_000
    assert text.count(MORE) == 2, "corpora and citations"
    assert text.count("- corpus") > 20 and text.endswith(whole[-200:])
    assert whole.count("- corpus") == 90 and MORE not in whole
    assert len(model_card(recipe(address="a").model_copy(update={"description": "d" * 9_000}), model, 5_000)) == 5_000


def test_without_the_download_the_recipe_speaks_alone(tmp_path: Path) -> None:
    card = model_card(CONFIG, candidate(tmp_path))
    assert card.startswith("English to German.\n\nTranslates en into ko")
    assert "\n\nLicence of the text: CC0\n\n" in card
    assert "## Scores" not in card


def test_the_commands_of_a_model_for_many_languages_name_one(tmp_path: Path) -> None:
    many = CONFIG.model_copy(update={"languages": LanguagesConfig(source="en", target="ko", pairs=("en-ko", "ko-en"))})
    card = model_card(many, candidate(tmp_path))
    assert "--output out.txt --to ko" in card and '.predict(["A line of text."], params={"to": "ko"})' in card
    into_one = many.languages.model_copy(update={"pairs": ("en-ko", "de-ko")})
    assert "--to" not in model_card(many.model_copy(update={"languages": into_one}), candidate(tmp_path))


def test_a_corpus_without_a_page_is_shown_with_its_addresses_and_the_licence_that_lies_in_its_archive(
    tmp_path: Path,
) -> None:
    address = "https://host.invalid/web.zip"
    with zipfile.ZipFile(tmp_path / "web.zip", "w") as archive:
        archive.writestr("LICENSE", "All rights reserved.")
    file = StoredFile(file="web.zip", sha256="", bytes=1, address=address, side="both")
    made = download(tmp_path, corpus("web").model_copy(update={"files": (file,)}))

    lines = data_of(model_card(recipe(address=address), candidate(tmp_path, made)))

    assert lines[-1] == f"- web: licence not stated (but its archive holds LICENSE), <{address}>"


def test_a_licence_that_the_recipe_corrects_is_corrected(tmp_path: Path) -> None:
    made = download(tmp_path, corpus("web", licence="MIT", citation="Them", url="https://host.invalid"))

    corrected = recipe(address="https://host.invalid/a", licence="CC0", citation="Us")
    lines = data_of(model_card(corrected, candidate(tmp_path, made)))

    assert "- web: CC0, <https://host.invalid>" in lines
    assert lines[-1] == "- Us"


@pytest.fixture
def measured(tmp_path: Path) -> Candidate:
    """A model with scores, failures and a training."""
    scores = [
        {
            "test_set": "news",
            "metric": "BLEU",
            "score": 31.234,
            "signature": "nrefs:1|case:mixed",
            "low": 30,
            "high": 32.5,
        },
        {"test_set": "news", "metric": "chrF", "score": 55.0, "signature": "nrefs:1"},
    ]
    buckets = [
        {"test_set": "news", "shortest": first, "longest": last, "unit": "words", "bleu": bleu}
        for first, last, bleu in ((1, 9, 40.0), (10, 50, 12.5))
    ]
    evaluate = reported(tmp_path, "evaluate", scores=scores, by_length=buckets, unfinished=3, items_out=1_000)
    hypotheses = [Translation("das ist gut", -1.0, "ok", 3), Translation("völlig falsch", -9.0, "ok", 2)]
    news = TestSet("news", ["this is good", "a | b\nc"], ["das ist gut", "rot"])
    write_translations(evaluate.path, news, hypotheses)
    train = {"items_in": 29_000, "updates": 7_000, "dev_loss": 1.5, "tokens": 9_000_000}
    return Candidate(
        reported(tmp_path, "export", items_out=4_000_000, not_published={"int8": "it loses 0.5 BLEU"}),
        evaluate,
        train=reported(tmp_path, "train", **train, gpu_seconds=5_400, cpu_seconds=1),
    )


def test_scores_come_with_intervals_and_signatures_and_failures_are_named(measured: Candidate) -> None:
    card = model_card(recipe(address="a"), measured)
    for line in (
        "- news: BLEU 31.23 (95% interval 30.00 to 32.50), `nrefs:1|case:mixed`",
        "- news: chrF 55.00, `nrefs:1`",
        "- news: BLEU 40.0 on sentences of up to 9 words, 12.5 on sentences of 10 or more.",
        "- 3 of 1,000 translations of test sentences did not end, and were cut.",
        "- Not published: int8 graphs (it loses 0.5 BLEU).",
        "- Not tested on domains other than its training data (web) and the test sets above.",
        "- 29,000 sentence pairs, 7,000 updates, 9,000,000 target tokens; dev loss 1.500 nats per token",
        "- 1.50 GPU hours",
    ):
        assert line in card.splitlines(), line
    hard = [line for line in card.splitlines() if line.startswith("- Hard")]
    assert hard[0].endswith(r"a \| b c -> völlig falsch (reference: rot)")
    assert "4,000,000 parameters" in card
    assert "models:/test@champion" in card
    assert len(card) < LONGEST_DESCRIPTION and model_card(recipe(address="a"), measured, LONGEST_DESCRIPTION) == card


def test_a_model_of_text_that_was_not_searched_for_test_sentences_says_so(measured: Candidate) -> None:
    values = recipe(address="a").model_dump() | {"clean": {"decontaminate": False}}
    assert "may contain sentences of the test sets" in model_card(PipelineConfig.model_validate(values), measured)


def test_each_member_of_an_ensemble_is_named(tmp_path: Path) -> None:
    members = [
        {"model": "average/aaaa", "checkpoint": "400", "sha256": "1" * 64, "is_own": True},
        {"model": "average/bbbb", "checkpoint": "", "sha256": "2" * 64, "is_own": False},
        {"model": "average/cccc", "checkpoint": "", "sha256": "3" * 64, "is_own": False},
    ]
    export = reported(tmp_path, "export", items_out=1_234, members=members, not_published={})
    made = replace(candidate(tmp_path), export=export, teachers={"average/bbbb": "en-de version 4, which is champion"})
    card = model_card(CONFIG, made).replace("\\", "")
    assert "an ensemble of 3 models" in card
    assert f"average/aaaa after update 400 (of this run; sha256 of the weights {'1' * 12})" in card
    assert f"average/bbbb (en-de version 4, which is champion; sha256 of the weights {'2' * 12})" in card
    assert f"average/cccc (not a registered model; sha256 of the weights {'3' * 12})" in card
    assert "1,234 parameters in 3 members" in card
    assert "ensemble" not in model_card(CONFIG, candidate(tmp_path))
