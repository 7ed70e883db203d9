"""A vocabulary for each language, from the text to a bundle that translates."""

import json
from typing import Any

import pytest
from safetensors.torch import load_file
from support.ranks import Ranks

from nmt_core.bundle.folder import BUNDLE_FILE
from nmt_core.config import SearchConfig
from nmt_core.errors import ModelError
from nmt_core.stages.stage import Job, Resources, SilentReporter, run_stage
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact, Store
from nmt_core.tokenizer.tokenizer import SOURCE_SPM_FILE, TARGET_SPM_FILE
from nmt_core.translator import Translator


@pytest.fixture(scope="module")
def made(
    tiny: dict[str, Artifact], make_config: Any, tmp_path_factory: pytest.TempPathFactory, ranks: Ranks
) -> dict[str, Artifact]:
    """The tiny pipeline from `tokenizer` to `export`, by stage."""
    config = make_config(
        tokenizer={"vocabularies": "separate", "vocab_size": 500},
        model={"tied_embeddings": "two_way", "d_model": 32},
        train={"max_updates": 150, "learning_rate_scale": 2.0, "checkpoint_every": 50, "validate_every": 50},
    )
    store, artifacts = Store(tmp_path_factory.mktemp("separate")), dict(tiny)
    job = Job(SilentReporter(), Resources(), launcher=ranks.launcher())
    for name in ("tokenizer", "encode", "train", "average", "export"):
        inputs = {needed: artifacts[needed] for needed in STAGES[name].needs}
        artifacts[name] = run_stage(STAGES[name], config, store, inputs, job).artifact
    return artifacts


def test_the_bundle_translates(made: dict[str, Artifact]) -> None:
    """The stage `export` has compared the graphs with PyTorch. Here both tokenizers must be used, each on its side."""
    report = made["export"].report()
    assert report["identical_beams"] == report["compared_sentences"] == 20
    folder = made["export"].path
    description = json.loads((folder / BUNDLE_FILE).read_text())
    assert (description["source_vocab_size"], description["vocab_size"]) == (500, 500)
    tokenizers = {SOURCE_SPM_FILE, TARGET_SPM_FILE}
    assert tokenizers < set(description["sha256"])
    assert {file.name for file in folder.glob("spm*")} == tokenizers
    translator = Translator.load(folder, SearchConfig(max_length_offset=8))
    translations = translator.translate(["I am a student.", "", "Who are you?"])
    assert [bool(one.text) for one in translations] == [True, False, True]
    letters = {letter for one in translations for letter in one.text if letter.isalpha()}
    assert letters
    assert not any(letter.isascii() for letter in letters), "the target's pieces are Korean"


def test_training_learns(made: dict[str, Artifact]) -> None:
    points = [json.loads(line) for line in (made["train"].path / "metrics.jsonl").read_text().splitlines()]
    losses = [point["dev_loss"] for point in points if "dev_loss" in point]
    assert losses[-1] < losses[0]


def test_two_matrices_are_stored(made: dict[str, Artifact]) -> None:
    weights = load_file(made["average"].path / "model.safetensors")
    assert [tuple(tensor.shape) for tensor in weights.values()].count((500, 32)) == 2


def test_half_of_the_tokenizers_is_not_enough(made: dict[str, Artifact], copy_of: Any) -> None:
    bundle = copy_of(made["export"]).path
    (bundle / TARGET_SPM_FILE).unlink()
    with pytest.raises(ModelError, match=r"spm\.target\.model: missing from the bundle"):
        Translator.load(bundle)
