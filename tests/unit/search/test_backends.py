"""One search with three models behind it: PyTorch, ONNX Runtime, and full decoding of every prefix."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from nmt_core.bundle.folder import precision_for, read_bundle
from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.errors import ConfigError, ModelError
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_kernels import OnnxKernels
from nmt_core.models.transformer import Transformer
from nmt_core.search import onnx_session
from nmt_core.search.beam import beam_search
from nmt_core.search.greedy import greedy_search
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.search.methods import search_batch
from nmt_core.search.onnx_session import best_device, device_for, open_graph, run_bound
from nmt_core.search.onnx_step import ENCODER_FILE, STEP_FILE, UNSCORED_STEP_FILE, WHOLE_STEP_FILE, OnnxStepper
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def torch_stepper(tiny_model: Transformer) -> TorchStepper:
    return TorchStepper(tiny_model)


@pytest.fixture(scope="module")
def onnx_stepper(tiny_bundle: Path) -> OnnxStepper:
    return OnnxStepper(tiny_bundle / "fp32", 100)


@pytest.fixture(scope="module")
def int8_stepper(int8_bundle: Path) -> OnnxStepper:
    return OnnxStepper(int8_bundle / "int8", 100)


def some_sources(count: int, seed: int = 1) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(4, 100, size).tolist() for size in generator.integers(1, 13, count)]


METHODS = {
    "greedy": SearchConfig(beam_size=1),
    "n-best": SearchConfig(beam_size=5, n_best=5),
    "short": SearchConfig(beam_size=4, min_length=3, max_length_factor=0.5, max_length_offset=4),
    "known pieces": SearchConfig(beam_size=4, allow_unknown=False),
    "samples": SearchConfig(method="sample", n_best=2),
    "few to draw from": SearchConfig(method="sample", temperature=1.5, top_k=9, top_p=0.8, min_length=2),
}


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"top_p": 0.7, "temperature": 0.8},
        {"min_length": 3, "allow_unknown": False},
        {"n_best": 3, "max_length_offset": 2},
    ],
)
def test_drawing_from_the_whole_vocabulary_finds_the_same_without_ranking_it(
    int8_bundle: Path, precision: str, rules: dict[str, Any]
) -> None:
    ranking, whole = (OnnxStepper(int8_bundle / precision, 100, step=step) for step in (STEP_FILE, WHOLE_STEP_FILE))
    config = SearchConfig.model_validate({"method": "sample", "n_best": 2, "max_length_offset": 6} | rules)
    sources, prefixes = some_sources(24), [ids[: len(ids) % 4] for ids in some_sources(24, seed=5)]
    expected = search_batch(ranking, sources, config, prefixes)
    for group, of_ranked in zip(search_batch(whole, sources, config, prefixes), expected, strict=True):
        assert_same(group, of_ranked)
    step = onnx.load(int8_bundle / precision / WHOLE_STEP_FILE, load_external_data=False)
    assert "TopK" not in {node.op_type for node in step.graph.node}


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_same_on_all_three(
    torch_stepper: TorchStepper,
    onnx_stepper: OnnxStepper,
    reference,
    tiny_model: Transformer,
    method: str,
    forced: bool,
) -> None:
    sources = some_sources(12)
    prefixes = [ids[: len(ids) % 4] for ids in some_sources(12, seed=5)] if forced else []
    config = METHODS[method].model_copy(update={"max_length_offset": min(6, METHODS[method].max_length_offset)})
    expected = search_batch(reference(tiny_model), sources, config, prefixes)
    assert not forced or {len(prefix) for prefix in prefixes} == {0, 1, 2, 3}
    for stepper in (torch_stepper, onnx_stepper):
        found = search_batch(stepper, sources, config, prefixes)
        assert [len(of_one) for of_one in found] == [len(of_one) for of_one in expected]
        assert_same([one for of_one in found for one in of_one], [one for of_one in expected for one in of_one])


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("rules", [{}, {"min_length": 3, "allow_unknown": False}])
def test_greedy_search_without_scores_finds_the_same(int8_bundle: Path, precision: str, rules: dict[str, Any]) -> None:
    sources, prefixes = some_sources(40, seed=7), [ids[: len(ids) % 3] for ids in some_sources(40, seed=8)]
    config = SearchConfig(beam_size=1, max_length_offset=6, **rules)
    scored, unscored = (
        OnnxStepper(int8_bundle / precision, 100, step=step) for step in (STEP_FILE, UNSCORED_STEP_FILE)
    )
    expected, found = (greedy_search(stepper, sources, config, prefixes) for stepper in (scored, unscored))
    assert [(one.ids, one.cut) for one in found] == [(one.ids, one.cut) for one in expected]
    assert len({one.ids for one in found}) > 10
    assert np.isfinite([one.score for one in expected]).all()
    assert np.isnan([one.score for one in found]).all()


@pytest.mark.parametrize("vocab_size", [9, 100])
def test_a_screen_lets_neither_padding_nor_a_second_start_pass(tmp_path: Path, vocab_size: int) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = Transformer(
            ModelConfig(d_model=16, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1), vocab_size
        )
    model.output.weight.data *= 3
    model.output.weight.data[[PAD_ID, BOS_ID]] *= 9  # about every other time one of them is the likeliest
    export_graphs(OnnxKernels(model.eval().requires_grad_(False)), tmp_path / "fp32")
    sources = [[token % (vocab_size - 4) + 4 for token in ids] for ids in some_sources(40)]
    unscored = OnnxStepper(tmp_path / "fp32", vocab_size, step=UNSCORED_STEP_FILE)
    for config in (METHODS["greedy"], SearchConfig(beam_size=1, min_length=2, allow_unknown=False)):
        expected = greedy_search(TorchStepper(model), sources, config)
        found = greedy_search(unscored, sources, config)
        assert [one.ids for one in found] == [one.ids for one in expected]
        said = {token for one in found for token in one.ids}
        assert len(said) > 1
        assert not said & {PAD_ID, BOS_ID}


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(one.ids, one.cut) for one in found] == [(one.ids, one.cut) for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=TOLERANCE)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_torch_onnx_and_reference_give_the_same(
    torch_stepper: TorchStepper, onnx_stepper: OnnxStepper, reference, tiny_model: Transformer, beam_size: int
) -> None:
    sources = some_sources(12)
    config = SearchConfig(beam_size=beam_size, max_length_offset=6)
    expected = beam_search(reference(tiny_model), sources, config)
    assert {one.cut for one in expected} == {True, False}  # both ways to stop are compared
    assert_same(beam_search(torch_stepper, sources, config), expected)
    assert_same(beam_search(onnx_stepper, sources, config), expected)


def test_long_translations_are_the_same(torch_stepper: TorchStepper, onnx_stepper: OnnxStepper) -> None:
    """The translation exceeds the initial size of ONNX Runtime's buffers, while other sentences end at any step."""
    sources = some_sources(12)
    config = SearchConfig(beam_size=4, max_length_offset=45)
    found = beam_search(onnx_stepper, sources, config)
    assert min(len(one.ids) for one in found) < 16 and max(len(one.ids) for one in found) > 32
    assert_same(found, beam_search(torch_stepper, sources, config))


@pytest.mark.parametrize("backend", ["torch_stepper", "onnx_stepper", "int8_stepper"])
def test_neither_order_nor_company_matters(backend: str, request: pytest.FixtureRequest) -> None:
    stepper = request.getfixturevalue(backend)
    sources, config = some_sources(24, seed=2), SearchConfig(max_length_offset=6)
    expected = beam_search(stepper, sources, config)
    order = np.random.default_rng(3).permutation(len(sources))
    shuffled = beam_search(stepper, [sources[place] for place in order], config)
    assert_same(shuffled, [expected[place] for place in order])
    assert_same([beam_search(stepper, [source], config)[0] for source in sources], expected)


def test_a_file_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    (tmp_path / "step.onnx").write_bytes(b"nothing of the kind")
    with pytest.raises(ModelError, match=r"step\.onnx: onnxruntime .* cannot load it"):
        open_graph(tmp_path / "step.onnx")


@pytest.mark.parametrize(
    ("asked", "precisions", "device"),
    [
        ("fastest", ["fp32", "fp16", "int8"], "cuda"),
        ("fastest", ["fp32", "int8"], "cpu"),
        ("fp16", ["fp32", "fp16"], "cuda"),
        ("fp32", ["fp32", "fp16"], "cpu"),
        ("int8", ["fp32", "int8"], "cpu"),
    ],
)
def test_a_gpu_computes_what_it_has_operators_for(
    monkeypatch: pytest.MonkeyPatch, asked: str, precisions: list[str], device: str
) -> None:
    monkeypatch.setattr(onnx_session, "best_device", lambda: "cuda")
    assert device_for(asked, precisions) == device
    monkeypatch.setattr(onnx_session, "best_device", lambda: "cpu")
    assert device_for(asked, precisions) == "cpu"


def test_other_precisions_are_refused_on_a_gpu(tiny_bundle: Path) -> None:
    bundle = read_bundle(tiny_bundle)
    for precision in bundle.precisions:
        assert precision_for(precision, "cpu", bundle) == precision
        if precision == "fp16":
            assert precision_for(precision, "cuda", bundle) == precision
            continue
        with pytest.raises(ConfigError, match=f"search.precision={precision} on cuda: .* only in fp16: use the CPU"):
            precision_for(precision, "cuda", bundle)


@pytest.mark.skipif(best_device() == "cuda", reason="has a GPU")
def test_a_device_that_is_not_there_is_refused(tiny_bundle: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match=r"step\.onnx: onnxruntime .* cannot (run|load) it"):
        open_graph(tiny_bundle / "fp32/step.onnx", "cuda")
    assert capfd.readouterr().out == "", "translations may go there"


def test_a_run_that_waits_for_copies_computes_the_same(tiny_bundle: Path) -> None:
    """A CPU has nothing to wait for, and the calls that wait are the same on every device."""
    session = open_graph(tiny_bundle / "fp32" / ENCODER_FILE)
    results = []
    for device in ("cpu", "cuda"):
        binding = session.io_binding()
        binding.bind_cpu_input("source", np.array([[5, 6, 7, EOS_ID]]))
        for output in session.get_outputs():
            binding.bind_output(output.name)
        run_bound(session, binding, device)
        results.append(binding.copy_outputs_to_cpu())
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_device_is_found_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    assert best_device() in {"cpu", "cuda"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(best_device() == "cuda", reason="has a GPU")
def test_a_gpu_that_cannot_be_used_leaves_the_work_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may show the GPU but have no CUDA. This machine has neither, so only the first is simulated."""
    monkeypatch.setattr(onnx_session, "_sees_a_gpu", lambda: True)
    onnx_session._can_use_it.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"onnxruntime .* cannot use it.*: models compute on the CPU; install"):
        assert best_device() == "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert best_device() == "cpu", "said once"
