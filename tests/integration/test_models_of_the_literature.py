"""The recipes of published models through every stage, at toy size: trained, exported, scored, registered, translating.

Only the sizes and the corpus of each recipe change. The flow that `nmt run` starts runs in this process. One recipe
runs through the command line. `make test` trains, exports and translates with each kind of model in `tests/unit`, and
takes the quickstart through every stage.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.trained_here import Here

from flows import retraining
from flows.settings import Settings
from flows.translation.job import translate_job
from flows.translation.request import TranslationRequest
from nmt_core.recipes.recipe import load_recipe
from nmt_core.train.distributed import World

pytestmark = [pytest.mark.slow, pytest.mark.cpu(25)]

SMALL = {
    "corpus": "{toy: {pairs: 2000, held_out: 20}, licence: any}",
    "languages.target": "ko",
    "clean.expected_length_ratio": 2.0,
    "model.d_model": 32,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "train.max_updates": 40,
    "train.max_tokens": 1_024,
    "train.micro_batch_tokens": 1_024,
    "train.validate_every": 10,
    "train.checkpoint_every": 10,
    "train.keep_checkpoints": 4,
    "export.parity_sentences": 5,
    "search.max_length_factor": 0.0,
    "search.max_length_offset": 12,
    "search.min_length": 4,
    "registry.min_score": 0.0,  # so little training teaches little, and each shall become champion
}
BPE = {"tokenizer.vocab_size": 700}
WORDS = {"tokenizer.vocab_size": 600, "tokenizer.target_vocab_size": 600}  # some test sentences hold <unk>, some do not
TRANSFORMER = {
    "model.d_ff": 64,
    "model.num_heads": 2,
    "train.max_updates": 160,
    "train.validate_every": 40,
    "train.checkpoint_every": 40,
    "train.warmup_updates": 40,
    "train.learning_rate_scale": 0.3,  # the published rate would rise to 0.03 at this width
    "export.precisions": "[fp32]",
}
LITTLE_STATE = {"model.rnn.hidden_size": 32}
RECURRENT = WORDS | LITTLE_STATE | {"model.rnn.alignment_size": 32, "model.rnn.maxout_size": 32}
ONE_PRECISION = {"export.precisions": "[fp32]"}
DEEP = RECURRENT | ONE_PRECISION | {"model.encoder_layers": 2, "model.decoder_layers": 2}
AS_PUBLISHED = BPE | TRANSFORMER | {"registry.contamination": "allow"}  # the papers left no text out
VARIED = {"model.key_width": 8, "model.dropout": 0.2, "train.label_smoothing": 0.0}
MORPHEMES = {"tokenizer.vocab_size": 600, "tokenizer.target_vocab_size": 700}
FEW_CHECKPOINTS = {"average.checkpoints": 4}
KINDS: dict[str, dict[str, Any]] = {
    "wmt14-en-de-base": AS_PUBLISHED | FEW_CHECKPOINTS,
    "wmt14-en-fr-big": AS_PUBLISHED | FEW_CHECKPOINTS,
    "korean-morphemes": MORPHEMES | TRANSFORMER,
    "table3-e": AS_PUBLISHED | VARIED,
    "rnn-encoder-decoder": RECURRENT | ONE_PRECISION,
    "rnnsearch-30": RECURRENT | {"export.precisions": "[fp32, fp16, int8]", "export.max_bleu_loss": 100},
    "seq2seq-fixed": DEEP,
    "seq2seq-dot": DEEP,
}
NO_INT8 = {"rnnsearch-30": {"int8"}}
BY_COMMAND = "seq2seq-fixed"
HERE = [recipe for recipe in KINDS if recipe != BY_COMMAND]


def changes(recipe: str) -> list[str]:
    """Changes that make a recipe small, as `--set` takes them."""
    options = SMALL | KINDS[recipe] | {"registry.model_name": recipe}
    return [f"{name}={value}" for name, value in options.items()]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, databases: Callable[[Path], Path]) -> Path:
    """Home for all recipes that run in this process, so that the text is made once."""
    return databases(tmp_path_factory.mktemp("literature") / "home")


@pytest.fixture
def settings(home: Path, prefect_api: str, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of that home. This process trains by itself."""
    monkeypatch.setattr(retraining, "launcher_for", lambda *_: Here(world))
    before = dict(os.environ)
    os.environ |= {"NMT_HOME": str(home), "NMT_THREADS": "1"}
    yield Settings.load()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def text(tmp_path: Path) -> tuple[Path, Path]:
    """A file of two lines, and where their translations go."""
    (tmp_path / "in").write_text("I am a student.\nYou see a dog.\n")
    return tmp_path / "in", tmp_path / "out"


@pytest.mark.parametrize("recipe", HERE)
def test_a_published_model_goes_through_every_stage(settings: Settings, text: tuple[Path, Path], recipe: str) -> None:
    from flows.retrain import retrain

    summary = retrain(config=load_recipe(recipe, changes(recipe))).model_dump(mode="json")
    check(recipe, summary, settings.home)
    translate_job(
        TranslationRequest(f"models:/{recipe}@champion", *map(str, text)), settings, lambda *_: None, pytest.fail
    )
    check_translations(text[1])


def test_one_goes_through_the_command_line(
    make_nmt: Any, prefect_server: Any, text: tuple[Path, Path], tmp_path: Path
) -> None:
    nmt = make_nmt(tmp_path / "home", prefect=prefect_server)
    arguments = [part for change in changes(BY_COMMAND) for part in ("--set", change)]
    summary = json.loads(nmt("run", BY_COMMAND, *arguments, "--json").stdout.splitlines()[-1])
    check(BY_COMMAND, summary, nmt.home)
    source, target = map(str, text)
    nmt("translate", "--model", f"models:/{BY_COMMAND}@champion", "--input", source, "--output", target)
    check_translations(text[1])


def check(recipe: str, summary: dict[str, Any], home: Path) -> None:
    """Assert that the model has learnt, was exported as trained, is scored by its vocabulary, and is champion."""
    assert summary["status"] == "finished"
    assert (summary["model"]["name"], sorted(summary["model"]["aliases"])) == (recipe, ["challenger", "champion"])
    reports = {
        stage["name"]: json.loads((Path(stage["artifact"]) / "report.json").read_text())
        for stage in summary["stages"]
        if stage["name"] in ("average", "export", "evaluate")
    }
    losses = [one["dev_loss"] for one in reports["average"]["kept"]]
    assert len(losses) == 4 and losses[-1] == min(losses) < losses[0], "it learns"
    assert reports["export"]["identical_beams"] == reports["export"]["compared_sentences"] == 5
    assert reports["export"]["not_published"].keys() == NO_INT8.get(recipe, set())
    of_words = "word" in summary["config"]["tokenizer"]["kind"]
    assert ("BLEU no UNK" in {score["metric"] for score in reports["evaluate"]["scores"]}) == of_words
    check_report(summary, (home / "runs" / summary["run_id"] / "report.html").read_text(encoding="utf-8"))


def check_report(summary: dict[str, Any], html: str) -> None:
    """The report says that the model has no attention, or shows the attention of short sentences, if there are any."""
    assert "cannot be shown" not in html
    section = html.split("<h2>Attention</h2>")[1].split("</section>")[0]
    model = summary["config"]["model"]
    has_none = model["architecture"] == "rnn" and model["rnn"]["attention"] == "none"
    assert "missing" not in section and (section.count('class="empty"') == 0 or not has_none)
    assert ("one vector of fixed length" in section) == has_none


def check_translations(file: Path) -> None:
    """Assert that there is one translation for each of two lines, and none is empty."""
    lines = file.read_text(encoding="utf-8").split("\n")
    assert len(lines) == 3 and all(line.strip() for line in lines[:2]) and not lines[2]
