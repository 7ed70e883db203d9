"""Imported models cut text and translate as the programs that they come from do.

`tests/golden/imported` has the ids of Hugging Face's transformers for models with random weights in three shapes, and
for a model of transformers' classes that has learnt to translate.
"""

import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from support.facts import raises
from typer.testing import CliRunner

from flows.cli.app import app
from nmt_core.bundle.folder import read_bundle
from nmt_core.config import ExportConfig, ModelConfig, SearchConfig, TrainConfig
from nmt_core.errors import ConfigError, DataError, ModelError, NmtError
from nmt_core.export.dev import Dev
from nmt_core.importing.foreign import ForeignModel, transformer_of
from nmt_core.importing.importer import Imported, import_model, read_model
from nmt_core.search.beam import n_best
from nmt_core.search.torch_step import TorchStepper
from nmt_core.stages.stage import SilentReporter
from nmt_core.store.artifacts import Artifact
from nmt_core.tokenizer.tokenizer import EOS_ID, UNK_ID
from nmt_core.train.start import find_start
from nmt_core.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden" / "imported"
RANDOM = ("marian", "npz", "m2m")
SHAPES = (*RANDOM, "learnt")
AS_TRANSFORMERS = SearchConfig(
    precision="fp32", length_penalty=0, max_length_factor=0, max_length_offset=120, max_source_tokens=120
)
"""Search that is the same in both. transformers: early_stopping=True, length_penalty=0."""


@pytest.fixture(scope="session")
def golden() -> ModuleType:
    spec = importlib.util.spec_from_file_location("imported_models", GOLDEN / "models.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def expected() -> Callable[[str, str], list[list[int]]]:
    """Return the ids of transformers for each line: `sources`, `greedy` or `beam`."""

    def of(shape: str, name: str) -> list[list[int]]:
        arrays = np.load(GOLDEN / f"{shape}.npz")
        ends = arrays[f"{name}_lengths"].astype(int).cumsum()[:-1]
        return [part.tolist() for part in np.split(arrays[name], ends)]

    return of


@pytest.fixture(scope="session")
def folder_of(golden: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("foreign")

    def of(shape: str) -> Path:
        if not (root / shape).exists():
            golden.write(shape, root / shape)
        return root / shape

    return of


LANGUAGES = {"marian": ("", ""), "npz": ("en", "ko"), "m2m": ("en", "ko"), "learnt": ("", "")}
REFERENCES = tuple((GOLDEN / "references.txt").read_text(encoding="utf-8").splitlines())
"""Translations of the first lines, which the learnt model was not trained with."""
LEAST_BLEU = 85
"""BLEU of the learnt model on these lines is 89.0 in fp32 and 88.3 in int8."""
CODE = ">>kor<< "
WITH_CODE = 50
"""Number of lines that begin with a language."""


@pytest.fixture(scope="session", params=SHAPES)
def imported(
    request: pytest.FixtureRequest,
    golden: ModuleType,
    folder_of: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, ForeignModel, Imported]:
    foreign = read_model(folder_of(request.param), LANGUAGES[request.param])
    options = ExportConfig(parity_sentences=40, calibration_sentences=100, quality_sentences=60, precisions=["int8"])
    out, dev = tmp_path_factory.mktemp("bundles") / request.param, Dev(golden.LINES, ())
    if request.param == "learnt":
        dev = Dev(golden.LINES[: len(REFERENCES)], REFERENCES)
        options = options.model_copy(update={"quality_sentences": len(REFERENCES)})
    return request.param, foreign, import_model(foreign, out, dev, options, 1, SilentReporter())


def own_ids(foreign: ForeignModel, ids: list[list[int]]) -> list[list[int]]:
    """Return the rows of the other model for ids of a target."""
    return [[foreign.target.rows[index] for index in row] for row in ids]


def test_graphs_are_compared_with_pytorch(imported: tuple[str, ForeignModel, Imported]) -> None:
    _, _, done = imported
    assert done.parity.identical == done.parity.sentences == 40
    assert 0 < done.parity.max_difference < 1e-4
    bundle = read_bundle(done.folder)
    assert (bundle.languages.source, bundle.languages.target) == ("en", "ko")


@pytest.mark.parametrize("imported", ["learnt"], indirect=True)
def test_a_model_that_has_learnt_passes_the_gate_in_int8(
    imported: tuple[str, ForeignModel, Imported], golden: ModuleType
) -> None:
    _, _, done = imported
    assert read_bundle(done.folder).precisions == ("fp32", "int8")
    assert done.costs == []
    assert done.bleu["fp32"] > LEAST_BLEU
    assert abs(done.bleu["int8"] - done.bleu["fp32"]) < ExportConfig().bleu_loss_bound
    translator = Translator.load(done.folder)
    assert translator.precision == "int8", "the fastest that has passed"
    found = [one.text for one in translator.translate(golden.LINES[:50])]
    assert sum(one == other for one, other in zip(found, REFERENCES, strict=False)) > 25


@pytest.mark.parametrize("imported", RANDOM, indirect=True)
def test_int8_of_random_weights_is_refused_by_name_and_fp32_is_served(
    imported: tuple[str, ForeignModel, Imported],
) -> None:
    _, _, done = imported
    [line] = done.costs
    if done.bleu["fp32"]:
        assert line.startswith("int8 is not published, users translate in fp32")
        assert "the loss exceeds export.bleu_loss_bound=1" in line
        assert done.bleu["int8"] < done.bleu["fp32"] - 1
    else:
        assert line.startswith("int8 is not published: BLEU of fp32 on 60 dev sentences is 0, so no loss could be seen")
    assert read_bundle(done.folder).precisions == ("fp32",)
    assert not (done.folder / "int8").exists()
    assert Translator.load(done.folder).precision == "fp32"
    with pytest.raises(ConfigError, match=r"search\.precision=int8 on cpu: the model has fp32"):
        Translator.load(done.folder, AS_TRANSFORMERS.model_copy(update={"precision": "int8"}))


def test_text_is_cut_as_before(
    imported: tuple[str, ForeignModel, Imported],
    golden: ModuleType,
    expected: Callable[[str, str], list[list[int]]],
) -> None:
    shape, foreign, done = imported
    tokenizer = Translator.load(done.folder, AS_TRANSFORMERS).tokenizers.source

    def cut(lines: list[str]) -> list[list[int]]:
        ids = [[*tokenizer.start_ids, *own, EOS_ID] for own in tokenizer.encode(lines)]
        return [[foreign.source.rows[index] for index in row] for row in ids]

    lines, of_transformers = golden.LINES, expected(shape, "sources")
    assert len(lines) == len(of_transformers) == 500
    unlike = [place for place, row in enumerate(cut(lines)) if row != of_transformers[place]]
    if shape != "learnt":
        assert unlike == []
        return
    # MarianTokenizer takes a language off the text before it looks for it in the vocabulary, so one that the vocabulary
    # does not have is one <unk>. Here it is text like any other.
    assert unlike == [place for place, line in enumerate(lines) if line.startswith(CODE)]
    assert len(unlike) == WITH_CODE
    rests = cut([lines[place].removeprefix(CODE) for place in unlike])
    assert [[foreign.source.rows[UNK_ID], *rest] for rest in rests] == [of_transformers[place] for place in unlike]


@pytest.mark.cpu(40)
@pytest.mark.parametrize(("name", "beam_size"), [("greedy", 1), ("beam", 5)])
def test_translations_have_the_ids_of_transformers(
    imported: tuple[str, ForeignModel, Imported],
    expected: Callable[[str, str], list[list[int]]],
    name: str,
    beam_size: int,
) -> None:
    """All 500 do, and the ones that reach the greatest length without an end mark too."""
    shape, foreign, done = imported
    most = 120 - (shape == "m2m")  # here, the first token of the language does not count
    search = AS_TRANSFORMERS.model_copy(update={"beam_size": beam_size, "max_length_offset": most})
    translator = Translator.load(done.folder, search)
    ids_of = {row: index for index, row in reversed(list(enumerate(foreign.source.rows)))}
    sources = [[ids_of[row] for row in rows[:-1]] for rows in expected(shape, "sources")]
    target = translator.tokenizers.target
    found = translator.search_ids(sources, [target.start_ids] * len(sources))
    assert own_ids(foreign, [list(one[0].ids) for one in found]) == expected(shape, name)
    reached = {"marian": (37, 11), "npz": (1, 0), "m2m": (71, 22), "learnt": (0, 0)}[shape]
    assert sum(one[0].cut for one in found) == reached[beam_size > 1]
    assert len(found) == 500


def test_the_searches_differ(expected: Callable[[str, str], list[list[int]]]) -> None:
    """The test of beam search would mean little if it found what greedy search finds."""
    for shape in RANDOM:
        greedy, beam = expected(shape, "greedy"), expected(shape, "beam")
        assert sum(one != other for one, other in zip(greedy, beam, strict=True)) > 50
        assert len(set(map(tuple, beam))) > 50


def test_a_bundle_translates_text(imported: tuple[str, ForeignModel, Imported]) -> None:
    shape, foreign, done = imported
    translator = Translator.load(done.folder)
    assert translator.search == foreign.search
    translation = translator.translate("The librarians can move the red boxes.")
    assert translation.status in ("ok", "unfinished")
    assert "__ko__" not in translation.text
    if shape == "m2m":  # the first token is the language, whatever the search asks
        assert translator.tokenizers.target.piece(translator.tokenizers.target.start_ids[0]) == "__ko__"


def test_training_starts_from_an_imported_model(imported: tuple[str, ForeignModel, Imported]) -> None:
    _, foreign, done = imported
    start = find_start(
        TrainConfig(start_from=str(done.folder)), foreign.config, Artifact("tokenizer", "0" * 32, done.folder)
    )
    assert start.weights == done.folder / "model.safetensors"
    assert "start_from: FOLDER" in (done.folder / "fine-tuning.yaml").read_text()


@pytest.mark.cpu(30)
def test_the_command_imports_a_model(
    golden: ModuleType, folder_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NMT_HOME", str(tmp_path / "home"))
    for name in ("dev.en", "dev.ko"):
        (tmp_path / name).write_text("\n".join(golden.LINES[:20]) + "\n", encoding="utf-8")
    command = ["import", str(folder_of("npz")), "--to", str(tmp_path / "out"), "--text", str(tmp_path / "dev.en")]
    done = CliRunner().invoke(app, [*command, "--references", str(tmp_path / "dev.ko"), "--languages", "en-ko"])
    assert done.exit_code == 0, done.output
    assert "20 of 20 sentences with the beams of PyTorch" in done.stdout
    assert read_bundle(tmp_path / "out").languages.target == "ko"
    (tmp_path / "dev.ko").write_text("one line\n")
    with raises(DataError, "dev.ko: has 1 line, and .*dev.en 20"):
        Dev.of_files(tmp_path / "dev.en", tmp_path / "dev.ko")


def test_embeddings_that_are_not_scaled(folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    """A model with embeddings sqrt(d_model) times as large and a last norm as much smaller is another form of one."""
    from safetensors.numpy import load_file, save_file

    sources = [[5, 9, 12, 7], [30, 31], [8, 8, 40, 41, 42]]
    search = SearchConfig(beam_size=3, n_best=3, length_penalty=0, max_length_offset=20)
    found = []
    for shape in ("marian", "m2m"):
        folder = tmp_path / shape
        shutil.copytree(folder_of(shape), folder)
        weights = load_file(folder / "model.safetensors")
        weights["model.shared.weight"] *= 32**0.5
        last = "decoder.layer_norm" if shape == "m2m" else "decoder.layers.1.final_layer_norm"
        for kind in ("weight", "bias"):
            weights[f"model.{last}.{kind}"] /= 32**0.5
        save_file(weights, folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"scale_embedding": False}))
        for place in (folder, folder_of(shape)):
            model = transformer_of(read_model(place, ("en", "ko")))
            found.append([[one.ids for one in beam] for beam in n_best(TorchStepper(model), sources, search)])
    assert found[0] == found[1]
    assert found[2] == found[3]


def changed(folder: Path, copy: Path, **values: object) -> Path:
    """Copy a model's folder, with other values in its config.json."""
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | values))
    return copy


@pytest.mark.parametrize(
    ("shape", "values", "words"),
    [
        ("marian", {"model_type": "t5"}, ["model_type='t5'", "marian", "m2m_100"]),
        ("marian", {"activation_function": "gelu_new"}, ['activation_function="gelu_new"', "swish"]),
        ("marian", {"decoder_attention_heads": 8}, ["decoder_attention_heads=8", "encoder_attention_heads is 4"]),
        ("m2m", {"decoder_ffn_dim": 32}, ["decoder_ffn_dim=32", "encoder_ffn_dim is 64"]),
        ("marian", {"normalize_embedding": True}, ["normalize_embedding=true", "only false"]),
        ("marian", {"max_position_embeddings": 32}, ["max_position_embeddings=32"]),
        ("marian", {"d_model": 64}, ["target_embedding.weight", "different models"]),
    ],
)
def test_what_cannot_be_expressed_is_refused(
    folder_of: Callable[[str], Path], tmp_path: Path, shape: str, values: dict[str, object], words: list[str]
) -> None:
    folder = changed(folder_of(shape), tmp_path / "model", **values)
    with raises(NmtError, re.escape(str(folder)), *map(re.escape, words)):
        transformer_of(read_model(folder, ("en", "ko")))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("transformer-ffn-activation: gelu", ["transformer-ffn-activation='gelu'", "relu and swish"]),
        ("transformer-decoder-autoreg: average-attention", ["transformer-decoder-autoreg='average-attention'"]),
        ("transformer-postprocess: dhn", ["transformer-postprocess='dhn'", "dan"]),
        ("type: s2s", ["type='s2s'", "transformer"]),
        ("transformer-heads: 5", ["dim-emb", "special:model.yml"]),
    ],
)
def test_an_option_of_marian_that_cannot_be_expressed_is_refused(
    folder_of: Callable[[str], Path], tmp_path: Path, line: str, words: list[str]
) -> None:
    shutil.copytree(folder_of("npz"), tmp_path / "model")
    file = tmp_path / "model" / "model.npz"
    arrays = dict(np.load(file))
    name = line.partition(":")[0]
    text = arrays["special:model.yml"].tobytes().rstrip(b"\0").decode()
    kept = "".join(f"{own}\n" for own in text.splitlines() if not own.startswith(f"{name}:"))
    arrays["special:model.yml"] = np.frombuffer(f"{kept}{line}\n".encode() + b"\0", np.int8)
    np.savez(file, **arrays)
    with raises(ConfigError, re.escape(str(file)), *map(re.escape, words)):
        read_model(file, ("en", "ko"))


def test_integers_of_marian_are_refused(folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(folder_of("npz"), tmp_path / "model")
    file = tmp_path / "model" / "model.npz"
    arrays = dict(np.load(file))
    arrays["Wemb"] = arrays["Wemb"].astype(np.int8)
    np.savez(file, **arrays)
    with pytest.raises(ConfigError, match="Wemb is stored as int8: give the model before it was converted"):
        read_model(file, ("en", "ko"))


def test_a_pickle_is_not_read(folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(folder_of("marian"), tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").rename(tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model.bin: is a pickle, .* save it by save_pretrained"):
        read_model(tmp_path / "model")


def test_a_model_for_many_languages_needs_two(folder_of: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError, match=r"is a model for many languages .* name two by --languages"):
        read_model(folder_of("m2m"))
    with pytest.raises(ConfigError, match=r"target language 'xx': the model in .* does not know it"):
        read_model(folder_of("m2m"), ("en", "xx"))


def test_nothing_is_replaced(folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    foreign = read_model(folder_of("npz"), ("en", "ko"))
    with pytest.raises(ConfigError, match="there: exists already: name a new folder"):
        import_model(foreign, tmp_path / "there", Dev(["a"], ()), ExportConfig(), 1, SilentReporter())
    with pytest.raises(ModelError, match="nowhere: no such file or folder: nothing is fetched here"):
        read_model(tmp_path / "nowhere")


def test_rows_of_nllb_are_one_place_after_sentencepiece(
    golden: ModuleType, folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """The rows of NLLB's tokenizer: four special pieces, the pieces of SentencePiece, languages, a mask."""
    import sentencepiece

    shutil.copytree(folder_of("m2m"), tmp_path / "nllb")
    (tmp_path / "nllb" / "vocab.json").unlink()
    codes = ["eng_Latn", "kor_Hang", "zho_Hans", "zho_Hant"]
    (tmp_path / "nllb" / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": codes}))
    foreign = read_model(tmp_path / "nllb", ("eng_Latn", "ko"))
    spm = sentencepiece.SentencePieceProcessor(model_file=str(GOLDEN / "bpe.spm"))
    (tmp_path / "spm.model").write_bytes(foreign.source.model)
    ours = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    for line in golden.LINES[::10]:
        rows = [foreign.source.rows[index] for index in ours.EncodeAsIds(line)]
        assert rows == [index + 1 if index else 3 for index in spm.EncodeAsIds(line)]
    languages = [
        foreign.source.rows[ours.PieceToId(side.start)] for side in (foreign.starts.source, foreign.starts.target)
    ]
    assert languages == [spm.GetPieceSize() + 1, spm.GetPieceSize() + 2]
    with pytest.raises(ConfigError, match="has it as zho_Hans, zho_Hant: name one of its pieces"):
        read_model(tmp_path / "nllb", ("en", "zh"))
    assert sorted(row for row in foreign.target.rows if row >= 0) == sorted([*range(len(foreign.target_VM)), 2])


def test_biases_count_in_a_shortlist_too(imported: tuple[str, ForeignModel, Imported]) -> None:
    """Logits of a list are the same part of all logits, in PyTorch."""
    from nmt_core.models.kernels import Kernels

    _, foreign, _ = imported
    model = transformer_of(foreign)
    kernels, states_RM = (
        Kernels(model),
        torch.randn(3, model.config.d_model, generator=torch.Generator().manual_seed(1)),
    )
    ids_WE = torch.tensor([[0, 1, 2, 3], [9, 7, 50, 60]])
    listed = kernels.times_output(states_RM, kernels.output_of(ids_WE))
    torch.testing.assert_close(listed, kernels.logits(states_RM, ())[:, ids_WE.flatten()])
    assert model.config == ModelConfig.model_validate(model.config.model_dump())
