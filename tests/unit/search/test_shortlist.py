"""A search with a shortlist gives the same on every backend, and with a full list the same as without one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt_core.config import ModelConfig, SearchConfig
from nmt_core.errors import ModelError
from nmt_core.export.calibration import calibrate
from nmt_core.export.graphs import export_graphs
from nmt_core.export.onnx_kernels import Int8Kernels, OnnxKernels
from nmt_core.export.onnx_rnn import OnnxRnnKernels
from nmt_core.models.build import build_model
from nmt_core.models.transformer import Transformer
from nmt_core.search.hypothesis import Hypothesis
from nmt_core.search.methods import search_batch
from nmt_core.search.onnx_step import SHORTLIST_FILES, SHORTLIST_STEP_FILE, OnnxStepper
from nmt_core.search.shortlist import BLOCK_PIECES, SPECIAL_IDS, Shortlist, ShortlistStepper
from nmt_core.search.step import ListedStepper, Stepper, pad_sources
from nmt_core.search.torch_step import TorchStepper
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID

PIECES = 100
TOLERANCE = 1e-4
METHODS = {
    "greedy": SearchConfig(beam_size=1, max_length_offset=6),
    "n-best": SearchConfig(beam_size=5, n_best=5, max_length_offset=6),
    "short": SearchConfig(beam_size=4, min_length=3, max_length_factor=0.5, max_length_offset=4),
    "samples": SearchConfig(method="sample", n_best=2, max_length_offset=6),
    "few to draw from": SearchConfig(method="sample", temperature=1.5, top_k=9, top_p=0.8, max_length_offset=6),
}
Found = list[list[Hypothesis]]


def shortlist_of(frequent: int, translations: int, seed: int = 1) -> Shortlist:
    generator = np.random.default_rng(seed)
    table = generator.integers(SPECIAL_IDS, PIECES, (PIECES, translations)).astype(np.uint8)
    return Shortlist(generator.permutation(PIECES)[:frequent].astype(np.uint8), table, PIECES)


FEW = shortlist_of(frequent=10, translations=2)
ALL = shortlist_of(frequent=PIECES, translations=2)


def some_sources(count: int, seed: int = 1) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(4, PIECES, size).tolist() for size in generator.integers(1, 13, count)]


def allowed(source: list[int], shortlist: Shortlist) -> set[int]:
    """Return the pieces that a translation may contain, read from the tables."""
    found = {*range(SPECIAL_IDS), *shortlist.frequent_F.tolist()}
    for piece in [*source, EOS_ID]:
        found |= set(shortlist.translations_VK[piece].tolist())
    return found


@pytest.fixture(scope="module")
def graphs(tiny_model: Transformer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    export_graphs(OnnxKernels(tiny_model), folder / "fp32", with_shortlist=True)
    ranges = calibrate(tiny_model, some_sources(8), SearchConfig(max_length_offset=6))
    export_graphs(Int8Kernels(tiny_model, ranges), folder / "int8", with_shortlist=True)
    return folder


@pytest.fixture(scope="module")
def backends(
    graphs: Path, tiny_model: Transformer, reference: Callable[[Transformer], ListedStepper]
) -> list[ListedStepper]:
    """The backends are full decoding of every prefix, PyTorch, and ONNX Runtime."""
    return [
        reference(tiny_model),
        TorchStepper(tiny_model),
        OnnxStepper(graphs / "fp32", PIECES, step=SHORTLIST_STEP_FILE),
    ]


def assert_same(found: Found, expected: Found) -> None:
    flat = [[one for of_one in hypotheses for one in of_one] for hypotheses in (found, expected)]
    assert [(one.ids, one.cut) for one in flat[0]] == [(one.ids, one.cut) for one in flat[1]]
    assert [one.score for one in flat[0]] == pytest.approx([one.score for one in flat[1]], abs=TOLERANCE)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_every_backend_finds_the_same_with_a_list(backends: list[ListedStepper], method: str, forced: bool) -> None:
    sources = some_sources(12)
    prefixes = [ids[: len(ids) % 4] for ids in some_sources(12, seed=5)] if forced else []
    expected, *others = (
        search_batch(ShortlistStepper(stepper, FEW), sources, METHODS[method], prefixes) for stepper in backends
    )
    for found in others:
        assert_same(found, expected)
    given_ids = prefixes or [[] for _ in sources]
    outside = 0
    for source, prefix, hypotheses in zip(sources, given_ids, expected, strict=True):
        listed = allowed(source, FEW)
        outside += len(set(prefix) - listed)
        for one in hypotheses:
            assert list(one.ids[: len(prefix)]) == prefix
            assert set(one.ids[len(prefix) :]) <= listed - {PAD_ID, BOS_ID, EOS_ID}
    assert not forced or outside > 5, "prefixes should hold pieces that are not listed"


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_list_of_all_pieces_changes_nothing(
    backends: list[ListedStepper], graphs: Path, tiny_model: Transformer, method: str, forced: bool
) -> None:
    sources = some_sources(12)
    prefixes = [ids[: len(ids) % 4] for ids in some_sources(12, seed=5)] if forced else []
    without: list[Stepper] = [TorchStepper(tiny_model), OnnxStepper(graphs / "fp32", PIECES)]
    for free, held in zip(without, backends[1:], strict=True):
        expected = search_batch(free, sources, METHODS[method], prefixes)
        assert_same(search_batch(ShortlistStepper(held, ALL), sources, METHODS[method], prefixes), expected)


def test_a_list_leads_elsewhere(backends: list[ListedStepper], tiny_model: Transformer) -> None:
    """Otherwise the tests of the list would show nothing."""
    sources, search = some_sources(12), METHODS["n-best"]
    free = search_batch(TorchStepper(tiny_model), sources, search)
    assert search_batch(ShortlistStepper(backends[1], FEW), sources, search) != free
    assert any(
        set(one.ids) - allowed(source, FEW) for source, of_one in zip(sources, free, strict=True) for one in of_one
    )


@pytest.mark.parametrize("method", ["n-best", "few to draw from"])
def test_in_int8_a_list_of_all_pieces_changes_nothing(graphs: Path, method: str) -> None:
    """The products are integers, so that the same columns give the same numbers."""
    sources = some_sources(12, seed=3)
    expected = search_batch(OnnxStepper(graphs / "int8", PIECES), sources, METHODS[method])
    held = ShortlistStepper(OnnxStepper(graphs / "int8", PIECES, step=SHORTLIST_STEP_FILE), ALL)
    assert_same(search_batch(held, sources, METHODS[method]), expected)


def test_in_int8_nothing_else_is_said(graphs: Path) -> None:
    sources = some_sources(12)
    held = ShortlistStepper(OnnxStepper(graphs / "int8", PIECES, step=SHORTLIST_STEP_FILE), FEW)
    found = search_batch(held, sources, METHODS["n-best"])
    assert all(
        set(one.ids) <= allowed(source, FEW) for source, of_one in zip(sources, found, strict=True) for one in of_one
    )


@pytest.mark.parametrize("backend", [1, 2, 3], ids=["torch", "onnx", "int8"])
@pytest.mark.parametrize("method", ["n-best", "samples"])
def test_neither_order_nor_company_matters(
    backends: list[ListedStepper], graphs: Path, backend: int, method: str
) -> None:
    """A sentence may not use pieces that are listed for the others."""
    steppers = [*backends, OnnxStepper(graphs / "int8", PIECES, step=SHORTLIST_STEP_FILE)]
    held, sources = ShortlistStepper(steppers[backend], FEW), some_sources(24, seed=2)
    expected = search_batch(held, sources, METHODS[method])
    order = np.random.default_rng(3).permutation(len(sources))
    shuffled = search_batch(held, [sources[place] for place in order], METHODS[method])
    assert_same(shuffled, [expected[place] for place in order])
    assert_same([search_batch(held, [source], METHODS[method])[0] for source in sources], expected)


def test_a_list_needs_no_weights_of_its_own(graphs: Path, tiny_model: Transformer) -> None:
    parameters = {id(one): one.numel() for one in (*tiny_model.parameters(), tiny_model.positions_LM)}
    size = (graphs / "fp32/weights.bin").stat().st_size
    assert size < 4 * sum(parameters.values()) + 4_096 * len(parameters)
    for name in SHORTLIST_FILES:
        assert (graphs / "fp32" / name).stat().st_size < 50_000


def test_a_recurrent_model_is_held_to_a_list_as_well(tmp_path: Path) -> None:
    config = ModelConfig(architecture="rnn", d_model=16, encoder_layers=1, decoder_layers=1, tied_embeddings="none")
    torch.manual_seed(1)
    model = build_model(config, PIECES, 2_048, None).eval().requires_grad_(False)
    model.output.weight.data *= 5
    export_graphs(OnnxRnnKernels(model), tmp_path / "fp32", with_shortlist=True)
    sources, search = some_sources(8), METHODS["n-best"]
    expected = search_batch(ShortlistStepper(TorchStepper(model), FEW), sources, search)
    held = ShortlistStepper(OnnxStepper(tmp_path / "fp32", PIECES, step=SHORTLIST_STEP_FILE), FEW)
    assert_same(search_batch(held, sources, search), expected)
    assert all(
        set(one.ids) <= allowed(source, FEW) for source, of_one in zip(sources, expected, strict=True) for one in of_one
    )


@given(
    st.lists(st.lists(st.integers(4, PIECES - 1), max_size=9), min_size=1, max_size=6),
    st.integers(1, PIECES),
    st.integers(1, 9),
)
def test_the_list_of_a_batch_joins_its_sentences(sources: list[list[int]], frequent: int, translations: int) -> None:
    shortlist = shortlist_of(frequent, translations)
    listed = shortlist.of_batch(pad_sources(sources))
    own = [allowed(source, shortlist) for source in sources]
    ids = listed.ids_WE.ravel().tolist()
    union = sorted(set().union(*own))
    assert listed.ids_WE.shape[1] == BLOCK_PIECES
    assert ids[: len(union)] == union
    assert ids[:SPECIAL_IDS] == list(range(SPECIAL_IDS))
    assert len(ids) - len(union) < BLOCK_PIECES
    for penalties, of_one in zip(listed.penalty_BWE.reshape(len(sources), -1), own, strict=True):
        assert penalties.tolist() == [
            0.0 if place < len(union) and index in of_one else -np.inf for place, index in enumerate(ids)
        ]


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    FEW.save(tmp_path / "one.npz")
    FEW.save(tmp_path / "other.npz")
    found = Shortlist.load(tmp_path / "one.npz", PIECES, PIECES)
    np.testing.assert_array_equal(found.frequent_F, FEW.frequent_F)
    np.testing.assert_array_equal(found.translations_VK, FEW.translations_VK)
    assert found.vocab_size == PIECES
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()


def test_a_file_of_another_model_or_of_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shortlist.npz"
    FEW.save(file)
    with pytest.raises(ModelError, match=r"shortlist\.npz: has translations of 100 pieces.* 90 source and 100 target"):
        Shortlist.load(file, 90, PIECES)
    with pytest.raises(ModelError, match=r"up to the id \d+, but the model has 100 source and 50 target pieces"):
        Shortlist.load(file, PIECES, 50)
    for content in (b"", b"nothing of the kind", file.read_bytes()[:100]):
        file.write_bytes(content)
        with pytest.raises(ModelError, match=r"shortlist\.npz: not a shortlist \(.*\): fetch or export"):
            Shortlist.load(file, PIECES, PIECES)
    np.savez(file, frequent=FEW.frequent_F)
    with pytest.raises(ModelError, match=r"shortlist\.npz: not a shortlist"):
        Shortlist.load(file, PIECES, PIECES)
