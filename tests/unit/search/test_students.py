"""The recipes of students: each learns from its teacher alone, and its model passes the gates, searches and explains.

The models are as deep as their recipes say, and narrow. They learn a few pairs by heart in seconds.
"""

import json
from pathlib import Path

import polars
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_model

from nmt_core.config import ModelConfig, PipelineConfig, SearchConfig
from nmt_core.explain.explanation import explain
from nmt_core.explain.page import page
from nmt_core.export.onnx import ExportReport, run
from nmt_core.models.loss import smoothed_cross_entropy
from nmt_core.models.transformer import Transformer
from nmt_core.recipes.recipe import load_recipe, recipe_names
from nmt_core.search.methods import search_batch
from nmt_core.search.onnx_step import OnnxStepper
from nmt_core.search.step import pad_sources
from nmt_core.search.torch_step import TorchStepper
from nmt_core.stages.stage import Job, Resources, SilentReporter, restrict
from nmt_core.stages.table import STAGES, stages_of
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import BOS_ID, PAD_ID, Tokenizer
from nmt_core.translator import Translator

STUDENTS = sorted(name for name in recipe_names() if name.startswith("student-"))
ANIMALS, VERBS = ("the cat", "a dog", "the big house"), ("sees", "runs to", "and")
PAIRS = [(f"{one} {verb} {other}.", f"{other} {one} {verb}") for one in ANIMALS for verb in VERBS for other in ANIMALS]
NARROW = {"d_model": 32, "d_ff": 64, "num_heads": 4}
SEARCH = SearchConfig(beam_size=4, n_best=2, max_length_offset=6)


def narrow_student(name: str, tokenizer: Tokenizer) -> Transformer:
    """Return a model that has learnt the pairs by heart."""
    config = ModelConfig.model_validate(load_recipe(name).model.model_dump() | NARROW | {"dropout": 0})
    sources, targets = (tokenizer.encode(lines) for lines in zip(*PAIRS, strict=True))
    source_BS = torch.from_numpy(pad_sources(sources))
    target_BT = torch.from_numpy(pad_sources(targets))
    input_BT = F.pad(target_BT[:, :-1], (1, 0), value=BOS_ID)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = Transformer(config, tokenizer.vocab_size, 2_048)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.004)
        for _ in range(150):
            loss, _ = smoothed_cross_entropy(
                model(source_BS, input_BT), model.output.weight, target_BT, 0.1, padding=PAD_ID
            )
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return model.eval().requires_grad_(False)


def exported(model: Transformer, name: str, tokenizer_file: Path, folder: Path) -> ExportReport:
    """Run the stage `export` on a model."""
    for part in ("average", "split", "out"):
        (folder / part).mkdir()
    save_model(model, str(folder / "average" / "model.safetensors"), metadata={"vocab_size": str(model.vocab_size)})
    text = polars.DataFrame(PAIRS, schema=["source", "target"], orient="row")
    text.write_parquet(folder / "split" / "dev.parquet")
    text.write_parquet(folder / "split" / "train-00000.parquet")
    (folder / "split" / "splits.json").write_text(json.dumps({"dev": "dev.parquet", "tests": {}}))
    changes = ["export.precisions=[fp32, int8]", "export.bleu_loss_bound=5"]  # a sentence of 27 is worth 2 BLEU
    config = load_recipe(name, changes).model_copy(update={"model": model.config})
    inputs = {part: Artifact(part, "0" * 32, folder / part) for part in ("average", "split")}
    inputs["tokenizer"] = Artifact("tokenizer", "0" * 32, tokenizer_file.parent)
    restricted = restrict(config, STAGES["export"].sections)
    return run(restricted, inputs, folder / "out", Job(SilentReporter(), Resources(threads=1)))


@pytest.mark.parametrize("name", STUDENTS)
def test_a_student_learns_from_its_teacher_alone(name: str) -> None:
    config = load_recipe(name)
    (part,) = config.synthesis.parts
    assert not config.synthesis.train_on_parallel
    assert part.text == "parallel_source"
    assert "synthesise" in {stage.name for stage in stages_of(config)}
    (teacher,) = part.teachers
    teachers_recipe = load_recipe(teacher.removeprefix("models:/").removesuffix("@champion"))
    assert same_text(config) == same_text(teachers_recipe), "else the gate finds test sentences in the teacher's text"
    assert config.model.decoder_layers < config.model.encoder_layers
    assert config.model.tied_embeddings == "three_way"
    assert smaller(config.model, teachers_recipe.model)


def same_text(config: PipelineConfig) -> dict[str, object]:
    return {section: getattr(config, section).model_dump() for section in ("languages", "corpus", "clean", "tokenizer")}


def smaller(student: ModelConfig, teacher: ModelConfig) -> bool:
    """Return True if a token of the student's decoder takes fewer weights than a token of its teacher's."""
    with torch.device("meta"):
        of_student, of_teacher = (Transformer(config, 1_000).weights_per_token[1] for config in (student, teacher))
    return of_student < of_teacher


@pytest.mark.cpu(20)
@pytest.mark.parametrize("name", [STUDENTS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in STUDENTS[1:])])
def test_a_student_passes_the_gates_and_is_searched_and_explained(
    name: str, tiny_tokenizer_file: Path, tmp_path: Path, reference
) -> None:
    tokenizer = Tokenizer(tiny_tokenizer_file)
    model = narrow_student(name, tokenizer)
    report = exported(model, name, tiny_tokenizer_file, tmp_path)
    assert report.identical_beams == report.compared_sentences == len(PAIRS)
    assert report.not_published == {}
    assert report.bleu["fp32"] > 90

    out, sources = tmp_path / "out", [source for source, _ in PAIRS]
    ids = tokenizer.encode(sources)
    steppers = (reference(model), TorchStepper(model), OnnxStepper(out / "fp32", tokenizer.vocab_size))
    expected, *others = (search_batch(stepper, ids, SEARCH) for stepper in steppers)
    for found in others:
        assert [[one.ids for one in group] for group in found] == [[one.ids for one in group] for group in expected]
    texts = [translation.text for translation in Translator.load(out, SEARCH).translate(sources)]
    assert sum(text == target for text, (_, target) in zip(texts, PAIRS, strict=True)) > 20, "in int8"

    explanation = explain(out, sources[0], SEARCH)
    layers = model.config.encoder_layers, model.config.decoder_layers
    maps = explanation.maps
    assert (maps.encoder_attention.shape[0], maps.cross_attention.shape[0]) == layers
    assert sources[0] in page(explanation, name)
