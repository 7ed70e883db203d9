"""The stage reads weights and a tokenizer, and makes a bundle that translates like PyTorch."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import polars
import pytest
import torch
from safetensors.torch import save_model

from nmt_core.bundle.folder import read_bundle
from nmt_core.config import (
    CorpusConfig,
    ExportConfig,
    LanguagesConfig,
    ModelConfig,
    PipelineConfig,
    SearchConfig,
    ToyCorpusConfig,
)
from nmt_core.errors import ConfigError, ModelError, StageError
from nmt_core.explain.explanation import explain
from nmt_core.export import gates as gates_module
from nmt_core.export.calibration import calibrate
from nmt_core.export.dev import Dev
from nmt_core.export.gates import Gates, onnx_kernels
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx import ExportReport, _export_judged, run
from nmt_core.export.onnx_kernels import Int8Kernels, OnnxKernels
from nmt_core.export.parity import compare
from nmt_core.models.build import build_model
from nmt_core.models.model import TranslationModel
from nmt_core.models.transformer import Transformer
from nmt_core.search.beam import beam_search
from nmt_core.search.greedy import greedy_search
from nmt_core.search.onnx_session import best_device
from nmt_core.search.onnx_step import SET_FILES, SHORTLIST_FILES, OnnxStepper
from nmt_core.search.shortlist import Shortlist, ShortlistStepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.stages.stage import Job, Resources, SilentReporter, restrict
from nmt_core.stages.table import STAGES
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import Tokenizer, Tokenizers
from nmt_core.translator import Translator

PRE_NORM = ModelConfig(d_model=32, d_ff=48, num_heads=2, encoder_layers=1, decoder_layers=3, norm="pre")
SMALLEST = ModelConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1)
ONE_LAYER = ModelConfig(d_model=32, d_ff=48, num_heads=2, encoder_layers=1, decoder_layers=1)
VIEWS = ("attention.onnx", "alignment.onnx", "worked.onnx")
SOURCES = [np.random.default_rng(seed).integers(4, 100, 3 + seed % 9).tolist() for seed in range(40)]
LINES = ["the cat sees a dog.", "a big house", "now", "the dog runs to it and sees a small cat", "나는 학생 이다"]


def random_model(config: ModelConfig, vocab_size: int) -> Transformer:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Transformer(config, vocab_size, 2_048).eval().requires_grad_(False)
    model.output.weight.data *= 2
    return model


def run_stage(
    model: TranslationModel,
    config: ModelConfig,
    tokenizer_file: Path,
    folder: Path,
    targets: list[str] = LINES,
    text: tuple[list[str], list[str]] = (LINES, LINES),
    **export: Any,
) -> ExportReport:
    for name in ("average", "split", "out"):
        (folder / name).mkdir()
    save_model(model, str(folder / "average" / "model.safetensors"), metadata={"vocab_size": str(model.vocab_size)})
    polars.DataFrame({"source": LINES, "target": targets}).write_parquet(folder / "split" / "dev.parquet")
    polars.DataFrame(dict(zip(("source", "target"), text, strict=True))).write_parquet(
        folder / "split" / "train-00000.parquet"
    )
    (folder / "split" / "splits.json").write_text(json.dumps({"dev": "dev.parquet", "tests": {}}))
    pipeline = PipelineConfig(
        name="tiny",
        languages=LanguagesConfig(source="en", target="ko"),
        corpus=CorpusConfig(toy=ToyCorpusConfig()),
        model=config,
        export=ExportConfig(**export),
    )
    inputs = {name: Artifact(name, "0" * 32, folder / name) for name in ("average", "split")}
    inputs["tokenizer"] = Artifact("tokenizer", "0" * 32, tokenizer_file.parent)
    pipeline = restrict(pipeline, STAGES["export"].sections)
    return run(pipeline, inputs, folder / "out", Job(SilentReporter(), Resources(threads=1)))


def test_weights_become_a_bundle_that_translates_as_they_do(
    tiny_tokenizer_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tokenizer = Tokenizer(tiny_tokenizer_file)
    model = random_model(PRE_NORM, tokenizer.vocab_size)
    report = run_stage(model, PRE_NORM, tiny_tokenizer_file, tmp_path, max_bleu_loss=100)
    assert capfd.readouterr() == ("", "")
    out = tmp_path / "out"
    sets = [f"{precision}/{name}" for precision in ("fp16", "fp32", "int8") for name in SET_FILES]
    assert set(report.bytes) == {"config.json", "profile.json", "spm.model", *sets, *(f"fp32/{name}" for name in VIEWS)}
    assert report.bytes["fp32/weights.bin"] == (out / "fp32/weights.bin").stat().st_size
    assert 0 < report.max_difference < 1e-4
    assert report.identical_beams == report.compared_sentences == len(LINES)
    assert report.bleu.keys() == report.tokens_per_second.keys() == {"fp32", "int8", "fp16"}
    assert report.devices == {"fp32": "cpu", "int8": "cpu", "fp16": best_device()}
    assert report.not_published == {}
    search = SearchConfig(beam_size=3, max_length_offset=4, precision="fp32")
    expected = beam_search(TorchStepper(model), tokenizer.encode(LINES), search)
    translations = Translator.load(out, search).translate(LINES)
    assert [one.text for one in translations] == tokenizer.decode([hypothesis.ids for hypothesis in expected])
    description = json.loads((out / "config.json").read_text())
    assert description["languages"] == {"source": "en", "target": "ko"}
    assert description["special_ids"] == {"pad": 0, "unk": 1, "bos": 2, "eos": 3}
    assert description["precisions"] == ["fp32", "int8", "fp16"]
    assert (description["vocab_size"], description["max_positions"], description["format"]) == (100, 2_048, 3)
    in_fp16 = compare(TorchStepper(model), OnnxStepper(out / "fp16", 100), SOURCES, search)
    assert 1e-5 < in_fp16.max_difference < 0.02, "what rounding to half precision explains"
    assert in_fp16.identical >= 0.9 * len(SOURCES)


def test_a_loss_that_cannot_be_seen_is_no_reason_to_publish(tiny_tokenizer_file: Path, tmp_path: Path) -> None:
    """BLEU of random weights is 0 in fp32. Int8 could not lose any of it, however bad it is."""
    model = random_model(PRE_NORM, Tokenizer(tiny_tokenizer_file).vocab_size)
    report = run_stage(model, PRE_NORM, tiny_tokenizer_file, tmp_path, shortlist=True)
    assert report.bleu == {"fp32": 0.0}
    assert report.not_published.keys() == {"int8", "fp16", "shortlist"}
    facts = (f"BLEU of fp32 on {len(LINES)} dev sentences is 0", "train longer", "export.max_bleu_loss=100")
    assert all(fact in reason for fact in facts for reason in report.not_published.values())
    assert read_bundle(tmp_path / "out").precisions == ("fp32",)
    assert [line.partition(":")[0] for line in report.costs] == [
        f"{name} is not published" for name in ("int8", "fp16", "shortlist")
    ]


def test_a_precision_that_loses_too_much_is_not_published(tiny_tokenizer_file: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer(tiny_tokenizer_file)
    model = random_model(PRE_NORM, tokenizer.vocab_size)
    for layer in model.decoder:  # an outlier that says nothing takes the whole range of the integers
        layer.feed_forward.inner.weight.data[0] *= 1e5
        layer.feed_forward.outer.weight.data[:, 0] = 0
    expected = beam_search(TorchStepper(model), tokenizer.encode(LINES), SearchConfig(beam_size=4))
    targets = tokenizer.decode([hypothesis.ids for hypothesis in expected])
    report = run_stage(model, PRE_NORM, tiny_tokenizer_file, tmp_path, targets, precisions=["int8", "fp16"])
    assert report.bleu["fp32"] == pytest.approx(100)
    assert report.not_published.keys() == {"int8, cache in int8", "int8", "fp16"}
    assert re.fullmatch(
        r"BLEU on 5 dev sentences is .* \(95% interval .*\) against fp32; .*", report.not_published["int8"]
    )
    in_int8, in_fp16 = report.costs
    assert re.match(r"int8 is not published, users translate in fp32 \([\d,]+ tokens/s in place of [\d,]+\): ", in_int8)
    assert in_fp16.startswith("fp16 is not published: the output of")
    assert re.match(
        r"the output of decoder\.\d\.feed_forward\.inner reaches [\d,]+ on dev text", report.not_published["fp16"]
    )
    assert {file.name for file in (tmp_path / "out").iterdir() if file.is_dir()} == {"fp32"}
    in_fp32 = Translator.load(tmp_path / "out", SearchConfig(precision="fp32")).translate(LINES)
    assert Translator.load(tmp_path / "out", SearchConfig()).translate(LINES) == in_fp32
    with pytest.raises(ConfigError, match=r"search\.precision=int8 on cpu: the model has fp32"):
        Translator.load(tmp_path / "out", SearchConfig(precision="int8"))


def test_int8_keeps_its_cache_in_fp32_where_integers_lose_too_much(tiny_tokenizer_file: Path, tmp_path: Path) -> None:
    """One outlier of the calibration text makes the scales so large that all keys and values round to 0."""
    tokenizer = Tokenizer(tiny_tokenizer_file)
    model = random_model(PRE_NORM, tokenizer.vocab_size)
    for layer in model.decoder:
        layer.self_attention.output.weight.data *= 4
    expected = beam_search(TorchStepper(model), tokenizer.encode(LINES), SearchConfig(beam_size=4))
    dev = Dev(LINES, tokenizer.decode([hypothesis.ids for hypothesis in expected]))
    languages = {"source": "en", "target": "ja"}  # whose BLEU counts letters: random models write no spaces
    values = {"name": "tiny", "corpus": CorpusConfig(toy=ToyCorpusConfig()), "languages": languages}
    values["export"] = {"bleu_loss_bound": 5}  # five sentences say little
    gates = Gates(model, Tokenizers(tokenizer, tokenizer), dev, PipelineConfig.model_validate(values), threads=1)
    (ranges,) = gates._ranges
    ranges.cache |= dict.fromkeys(ranges.cache, (1e6, 1e6))
    export_graphs(onnx_kernels(model), tmp_path / "fp32")
    gates.measure(tmp_path, "fp32")
    _export_judged(gates, "int8", tmp_path, SilentReporter(), with_shortlist=False)
    assert gates.refused.keys() == {"int8, cache in int8"}, gates.bleu
    assert gates.bleu.keys() == gates.changes.keys() | {"fp32"} == {"fp32", "int8, cache in int8", "int8"}
    (cost,) = gates.costs()
    assert re.match(r"int8, cache in int8 is not published, users translate with its cache in fp32 \([\d,]+ tok", cost)
    held = {one.type for one in OnnxStepper(tmp_path / "int8", tokenizer.vocab_size).past_inputs}
    assert held == {"tensor(float)"}


def test_where_a_screen_would_drop_the_likeliest_token_greedy_search_keeps_its_scores(
    tiny_tokenizer_file: Path, tmp_path: Path
) -> None:
    tokenizer, search = Tokenizer(tiny_tokenizer_file), SearchConfig(beam_size=1, precision="fp32")
    model = random_model(ONE_LAYER, tokenizer.vocab_size)
    weight = model.output.weight.data
    weight[:] = weight[5] + 0.01 * weight  # all tokens are next to equally likely
    report = run_stage(model, ONE_LAYER, tiny_tokenizer_file, tmp_path, precisions=["fp32"])
    assert report.not_published.keys() == {"fp32 without scores"}
    assert re.fullmatch(
        r"[1-5] of 5 held-out sentences get another translation .*", report.not_published["fp32 without scores"]
    )
    assert {file.name for file in (tmp_path / "out/fp32").iterdir()} == {*SET_FILES, *VIEWS} - {"unscored_step.onnx"}
    expected = [one.ids for one in greedy_search(TorchStepper(model), tokenizer.encode(LINES), search)]
    found = Translator.load(tmp_path / "out", search, scores=False).translate(LINES)
    assert [one.text for one in found] == tokenizer.decode(expected)
    assert np.isfinite([one.score for one in found]).all()


SHORTLIST = {"shortlist": True, "shortlist_frequent": 5, "shortlist_translations": 6}


def test_a_shortlist_is_part_of_the_bundle(tiny_tokenizer_file: Path, tmp_path: Path) -> None:
    tokenizer, out = Tokenizer(tiny_tokenizer_file), tmp_path / "out"
    model = random_model(ONE_LAYER, tokenizer.vocab_size)
    search = SearchConfig(beam_size=3, max_length_offset=4, precision="fp32", shortlist="always")
    report = run_stage(
        model, ONE_LAYER, tiny_tokenizer_file, tmp_path, max_bleu_loss=100, precisions=["int8"], **SHORTLIST
    )
    names = {"fp32", "int8"}
    assert report.bleu.keys() == report.tokens_per_second.keys() == names | {f"{name}, shortlist" for name in names}
    assert report.not_published == {}
    description = json.loads((out / "config.json").read_text())
    assert description["shortlist"] == {"frequent": 5, "translations": 6}
    files = {"shortlist.npz", *(f"{name}/{file}" for name in names for file in SHORTLIST_FILES)}
    assert files <= set(report.bytes)
    assert files <= description["sha256"].keys()
    shortlist = Shortlist.load(out / "shortlist.npz", 100, 100)
    in_torch = ShortlistStepper(TorchStepper(model), shortlist)
    texts = [one.text for one in Translator(in_torch, Tokenizers(tokenizer, tokenizer), search).translate(LINES)]
    assert [one.text for one in Translator.load(out, search).translate(LINES)] == texts
    assert explain(out, LINES[0], search).text == texts[0]
    free = search.model_copy(update={"shortlist": "never"})
    assert [one.text for one in Translator.load(out, free).translate(LINES)] != texts
    (out / "shortlist.npz").write_bytes(b"damaged")
    with pytest.raises(ModelError, match=r"shortlist\.npz: .* its sha256 is"):
        Translator.load(out, search)
    Translator.load(out, free)


@pytest.mark.parametrize(
    ("pieces", "frequent", "use"),
    [
        (100, 100, "unless search.shortlist=never"),
        (101, 100, "only with search.shortlist=always: the vocabulary has 100 pieces, fewer than 101"),
        (100, 60, r"only with search.shortlist=always: the change of BLEU in fp32 is .*, a loss of more than 0\.1"),
    ],
    ids=["safe", "small", "lossy"],
)
def test_beam_search_uses_a_shortlist_unasked_if_it_is_measured_to_be_safe(
    tiny_tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int, frequent: int, use: str
) -> None:
    monkeypatch.setattr(gates_module, "_PIECES_WORTH_A_LIST", pieces)  # the tiny vocabulary has 100
    tokenizer, out = Tokenizer(tiny_tokenizer_file), tmp_path / "out"
    model = random_model(ONE_LAYER, tokenizer.vocab_size)
    expected = beam_search(TorchStepper(model), tokenizer.encode(LINES), SearchConfig(beam_size=4))
    targets = tokenizer.decode([hypothesis.ids for hypothesis in expected])
    options = SHORTLIST | {"shortlist_frequent": frequent, "max_bleu_loss": 100, "precisions": ["fp32"]}
    report = run_stage(model, ONE_LAYER, tiny_tokenizer_file, tmp_path, targets, **options)
    assert re.fullmatch(use, report.shortlist_use)
    is_safe = report.shortlist_use == "unless search.shortlist=never"
    assert json.loads((out / "config.json").read_text())["shortlist"].get("by_default", False) is is_safe
    used = {
        str(search): Translator.load(out, SearchConfig.model_validate(search)).uses_shortlist
        for search in ({}, {"beam_size": 1}, {"method": "sample"}, {"shortlist": False}, {"shortlist": True})
    }
    assert list(used.values()) == [is_safe, is_safe, False, False, True], used


def test_a_shortlist_that_loses_too_much_is_not_published(tiny_tokenizer_file: Path, tmp_path: Path) -> None:
    tokenizer, out = Tokenizer(tiny_tokenizer_file), tmp_path / "out"
    model = random_model(ONE_LAYER, tokenizer.vocab_size)
    expected = beam_search(TorchStepper(model), tokenizer.encode(LINES), SearchConfig(beam_size=4))
    targets = tokenizer.decode([hypothesis.ids for hypothesis in expected])
    report = run_stage(model, ONE_LAYER, tiny_tokenizer_file, tmp_path, targets, precisions=["fp32"], **SHORTLIST)
    assert report.bleu["fp32"] == pytest.approx(100)
    assert report.bleu["fp32, shortlist"] < 99
    assert re.fullmatch(
        r"BLEU on 5 dev sentences is .* against fp32; .* raise .*",
        report.not_published["shortlist"],
    )
    assert "shortlist" not in (out / "config.json").read_text()
    assert {file.name for file in (out / "fp32").iterdir()} == {*SET_FILES, *VIEWS}
    with pytest.raises(
        ConfigError, match=r"search\.shortlist=always: the model in .* has no shortlist: export it again"
    ):
        Translator.load(out, SearchConfig(shortlist=True))


def test_no_matrix_is_stored_twice_in_a_set(tiny_model: Transformer, tiny_bundle: Path) -> None:
    parameters = {id(one): one.numel() for one in (*tiny_model.parameters(), tiny_model.positions_LM)}
    size = (tiny_bundle / "fp32/weights.bin").stat().st_size
    screen = tiny_model.output.weight.numel()  # bytes
    assert size < 4 * sum(parameters.values()) + screen + 4_096 * (len(parameters) + 1)
    for name in ("encoder.onnx", "step.onnx", "keep.onnx", "move.onnx", "copy.onnx", *VIEWS):
        assert (tiny_bundle / "fp32" / name).stat().st_size < 50_000


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_step_without_scores_has_no_softmax_over_the_vocabulary(int8_bundle: Path, precision: str) -> None:
    scored, unscored = (
        onnx.load(int8_bundle / precision / name, load_external_data=False).graph
        for name in ("step.onnx", "unscored_step.onnx")
    )
    assert [one.name for one in scored.output] == ["log_probs", *(one.name for one in unscored.output)]
    assert [one.name for one in scored.input] == [one.name for one in unscored.input]
    assert [node.op_type for node in scored.node].count("Softmax") == 1
    assert "Softmax" not in [node.op_type for node in unscored.node]


@pytest.mark.parametrize(("precision", "products"), [("fp32", 1), ("int8", 0)])
def test_without_scores_the_product_with_the_output_matrix_is_made_of_integers(
    int8_bundle: Path, precision: str, products: int
) -> None:
    for name, expected in (("step.onnx", 0), ("unscored_step.onnx", products)):
        nodes = onnx.load(int8_bundle / precision / name, load_external_data=False).graph.node
        assert [node.op_type for node in nodes].count("DynamicQuantizeMatMul") == expected


def test_in_int8_an_embedding_is_stored_once_and_small(tmp_path: Path) -> None:
    """There is a byte for each weight and a scale for each row, only once for a tied matrix.

    It is most of a small model.
    """
    pieces, sizes = 12_000, []
    for tied in ("none", "three_way"):
        model = random_model(ONE_LAYER.model_copy(update={"tied_embeddings": tied}), pieces)
        ranges = calibrate(model, [[5, 6, 7]], SearchConfig(max_length_offset=2))
        export_graphs(Int8Kernels(model, ranges), tmp_path / tied)
        sizes.append((tmp_path / tied / "weights.bin").stat().st_size - 4 * model.positions_LM.numel())
    matrix = pieces * (ONE_LAYER.d_model + 4)
    assert sizes[1] < 1.2 * matrix
    assert sizes[0] - sizes[1] == pytest.approx(2 * matrix, abs=16_384)


def test_what_shows_attention_needs_no_weights_of_its_own(
    tiny_model: Transformer, tiny_bundle: Path, tmp_path: Path
) -> None:
    export_graphs(OnnxKernels(tiny_model), tmp_path / "without")
    sizes = [(folder / "weights.bin").stat().st_size for folder in (tmp_path / "without", tiny_bundle / "fp32")]
    assert sizes[0] == sizes[1]
    assert not (tmp_path / "without/attention.onnx").exists()


def test_a_graph_tells_nothing_of_the_machine_that_exported_it(tiny_bundle: Path) -> None:
    for name in (*SET_FILES, *VIEWS):
        assert b".py" not in (tiny_bundle / "fp32" / name).read_bytes()


def test_the_same_weights_make_the_same_files(tiny_model: Transformer, tiny_bundle: Path, tmp_path: Path) -> None:
    export_graphs(OnnxKernels(tiny_model), tmp_path / "again", with_attention=True)
    for name in (*SET_FILES, *VIEWS):
        assert (tmp_path / "again" / name).read_bytes() == (tiny_bundle / "fp32" / name).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"decoder_autoregression": "ssru"},
        {"architecture": "rnn", "tied_embeddings": "none", "rnn": {"cell": "lstm", "attention": "none"}},
    ],
    ids=["transformer", "ssru", "lstm"],
)
def test_the_stage_fails_where_the_runtimes_differ_and_tells_that_they_round(
    change: dict[str, Any], tiny_tokenizer_file: Path, tmp_path: Path
) -> None:
    config = ModelConfig.model_validate(SMALLEST.model_dump() | change)
    torch.manual_seed(1)
    model = build_model(config, Tokenizer(tiny_tokenizer_file).vocab_size, 2_048)
    with pytest.raises(StageError, match=r"more than export\.parity_tolerance=1e-30\. .* both round"):
        options = {"parity_tolerance": 1e-30, "parity_sentences": 2, "parity_beam_size": 2, "precisions": ["fp32"]}
        run_stage(model, config, tiny_tokenizer_file, tmp_path, **options)


def test_weights_of_another_model_are_refused(tiny_tokenizer_file: Path, tmp_path: Path) -> None:
    model = random_model(SMALLEST, 90)
    with pytest.raises(
        ModelError, match=r"model\.safetensors: does not hold the weights of this model with 100 pieces"
    ):
        run_stage(model, SMALLEST, tiny_tokenizer_file, tmp_path)
