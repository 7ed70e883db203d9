"""Bundles: their contents, their search settings, and checks of their files.

A bundle is a folder that a machine without this pipeline can use. It holds:

- a folder of graphs for each precision (`search/onnx_step.py`). The fp32 folder has more graphs, for attention, for
  alignments, and for the matrices of a Transformer's first layers. Bundles of earlier versions lack some.
- `spm.model`, or `spm.source.model` and `spm.target.model`.
- `pretokenizers.json`, if text is cut before the tokenizer, or starts with a piece that the model needs.
- `shortlist.npz` and two more graphs for each precision, if the model has a shortlist.
- `profile.json`, histograms of the training text, which bundles of earlier versions lack.
- `config.json`, which describes the model and holds the sha256 of all files above.
- `search.json`, which is optional and holds the settings of the search with which the model was scored.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from nmt_core.config import LanguagesConfig, Precision, Pretokenizing, RnnConfig, SearchConfig
from nmt_core.config.faults import problem_of
from nmt_core.config.renamed import with_present_names
from nmt_core.config.section import later
from nmt_core.errors import ConfigError, FormatError, ModelError
from nmt_core.search.alignment import ALIGNMENT_FILE
from nmt_core.search.attention import ATTENTION_FILE
from nmt_core.search.onnx_session import FASTEST, Device
from nmt_core.search.onnx_step import (
    ALWAYS_READ,
    SHORTLIST_OUTPUT_FILE,
    SHORTLIST_STEP_FILE,
    STEP_FILE,
    UNSCORED_STEP_FILE,
    WHOLE_STEP_FILE,
)
from nmt_core.search.sentences import ROWS_WITH_SEVERAL
from nmt_core.search.shortlist import SHORTLIST_FILE
from nmt_core.spelling import Punctuation, UnicodeForm
from nmt_core.tokenizer.pretokenize import PRETOKENIZERS_FILE, Pretokenizers
from nmt_core.tokenizer.tokenizer import SOURCE_SPM_FILE, SPM_FILE, TARGET_SPM_FILE, Tokenizers

BUNDLE_FILE = "config.json"
SEARCH_FILE = "search.json"
BUNDLE_FORMAT: Literal[3] = 3
ATTENTION_SET: Precision = "fp32"
"""Precision whose folder has the graphs for attention and alignments. Each precision's folder has its name."""

_REMEDY = "fetch or export the bundle again"


class ShortlistSizes(BaseModel):
    """Sizes of the shortlist, as recorded in `config.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    frequent: int
    """Number of pieces that are in every shortlist."""
    translations: int
    """Number of pieces that a source piece can add to the shortlist."""
    by_default: bool = later(False)
    """True if the export found the shortlist safe: beam search then uses it unless `search.shortlist` is `never`."""


class BundleConfig(BaseModel):
    """Contents of `config.json`: the model, and the hashes of the other files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_names(cls, values: Any) -> Any:
        return with_present_names(values)

    format: Literal[3] = BUNDLE_FORMAT
    languages: LanguagesConfig
    unicode_form: UnicodeForm
    """Unicode normalisation form of the training text."""
    punctuation: Punctuation = "as_is"
    """Punctuation of the training text."""
    vocab_size: int
    """Number of pieces of the target tokenizer, which is the width of the output."""
    source_vocab_size: int | None = None
    """Number of pieces of the separate source tokenizer. None if one tokenizer serves both languages."""
    source_pretokenizer: Pretokenizing = "none"
    """Tool that cuts source text before the tokenizer. `pretokenizers.json` holds its settings."""
    target_pretokenizer: Pretokenizing = "none"
    """Tool that cut the target text before the tokenizer. Translations are joined again."""
    special_ids: dict[Literal["pad", "unk", "bos", "eos"], int]
    architecture: Literal["transformer", "rnn"] = "transformer"
    rnn: RnnConfig | None = None
    """Recurrent network, or None for a Transformer."""
    d_model: int
    num_heads: int | None = None
    """Number of attention heads. None for a recurrent network."""
    encoder_layers: int
    decoder_layers: int
    max_positions: int
    """Longest sequence, in tokens, on either side, including the end mark."""
    members: int | None = None
    """Number of models of an ensemble, whose probabilities the graphs average. None for one model."""
    precisions: tuple[Precision, ...]
    """Precisions of the graphs, each in a folder of its name."""
    shortlist: ShortlistSizes | None = None
    """Sizes of the shortlist. None if the model has no shortlist."""
    rows_with_several_sentences: float | None = None
    """Share of the training rows with more than one source sentence. None in bundles of earlier versions."""
    sha256: dict[str, str]
    """Hash of every other file of the bundle, by its path in the bundle."""

    @model_serializer(mode="wrap")
    def _described(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is None and newer than the format, so that earlier versions can read the bundle."""
        described: dict[str, Any] = handler(self)
        for name in ("shortlist", "rows_with_several_sentences", "members"):
            if getattr(self, name) is None:
                described.pop(name, None)
        return described

    @property
    def has_alignments(self) -> bool:
        """True if the model can align words. Bundles of earlier versions and models without attention cannot."""
        return any(f"{ATTENTION_SET}/{name}" in self.sha256 for name in (ALIGNMENT_FILE, ATTENTION_FILE))

    @property
    def has_one_sentence_a_row(self) -> bool:
        """True if it is known that almost all training rows hold one sentence."""
        share = self.rows_with_several_sentences
        return share is not None and share < ROWS_WITH_SEVERAL

    @property
    def tokenizer_sizes(self) -> dict[str, int]:
        """Number of pieces of each tokenizer, by the name of its file."""
        if self.source_vocab_size:
            return {SOURCE_SPM_FILE: self.source_vocab_size, TARGET_SPM_FILE: self.vocab_size}
        return {SPM_FILE: self.vocab_size}

    @property
    def pretokenizers(self) -> tuple[Pretokenizing, Pretokenizing]:
        """Pretokenizers of source and target."""
        return self.source_pretokenizer, self.target_pretokenizer

    @property
    def pretokenizer_files(self) -> list[str]:
        """Name of the file with the settings of the pretokenizers, in a list. Empty if text is left as it is."""
        is_there = self.pretokenizers != ("none", "none") or PRETOKENIZERS_FILE in self.sha256
        return [PRETOKENIZERS_FILE] if is_there else []


def uses_shortlist(bundle: BundleConfig, search: SearchConfig) -> bool:
    """Return True if a search chooses from the shortlist, as it says or by default."""
    if search.shortlist == "auto":
        return search.method == "beam" and bundle.shortlist is not None and bundle.shortlist.by_default
    return search.shortlist == "always"


def step_file(
    folder: Path, bundle: BundleConfig, precision: Precision, search: SearchConfig, *, scores: bool = True
) -> str:
    """Return the file name of the step graph that is the fastest for a search.

    Args:
        folder: folder of the bundle.
        bundle: contents of the bundle. Earlier versions had fewer graphs.
        precision: precision of the graphs.
        search: the search. Only greedy search without a shortlist can do without scores.
        scores: True if scores are needed.

    Raises:
        ConfigError: the search needs a shortlist, and the bundle has none.
    """
    if search.shortlist == "always" and not bundle.shortlist:
        raise ConfigError(
            f"search.shortlist=always: the model in {folder} has no shortlist: export it again with "
            "export.shortlist=true, or set search.shortlist=never"
        )
    if uses_shortlist(bundle, search):
        return SHORTLIST_STEP_FILE
    file = STEP_FILE
    if search.method == "sample" and not search.top_k:
        file = WHOLE_STEP_FILE
    elif search.method == "beam" and search.beam_size == 1 and not scores and not search.limits_repetition:
        file = UNSCORED_STEP_FILE
    return file if f"{precision}/{file}" in bundle.sha256 else STEP_FILE


def graph_files(precision: Precision, step: str) -> list[str]:
    """Return the files that a search with this step reads, except the tokenizers, by their path in the bundle."""
    listed = step == SHORTLIST_STEP_FILE
    names = [f"{precision}/{name}" for name in (*ALWAYS_READ, step, *([SHORTLIST_OUTPUT_FILE] if listed else []))]
    return [*names, SHORTLIST_FILE] if listed else names


def read_bundle(folder: Path) -> BundleConfig:
    """Read `config.json`.

    Raises:
        FormatError: the bundle has another format.
        ModelError: the folder is not a bundle, or the file is damaged.
    """
    file = folder / BUNDLE_FILE
    if not file.is_file():
        raise ModelError(f"{folder}: not a bundle, because it has no {BUNDLE_FILE}: name the folder that `export` made")
    try:
        bundle = BundleConfig.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "whole file"
        if where == "format":
            raise FormatError(
                f"{file}: format {first['input']!r} is unknown to this version, which reads {BUNDLE_FORMAT}: export "
                "the model again, or install the nmt-pipeline that made the bundle"
            ) from None
        raise ModelError(f"{file}: damaged ({where} {problem_of(first)}): {_REMEDY}") from None
    return bundle


def read_search(folder: Path) -> SearchConfig:
    """Return the search with which the model was registered, or the defaults if the bundle has no `search.json`.

    Raises:
        ModelError: `search.json` does not hold a valid search, or names a program to run, which a model may not.
    """
    file = folder / SEARCH_FILE
    if not file.exists():
        return SearchConfig()
    try:
        search = SearchConfig.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "whole file"
        raise ModelError(f"{file}: {where} {problem_of(first)}: correct it, or remove it for the defaults") from None
    if search.judge:
        raise ModelError(
            f"{file}: names the program `{search.judge.command}` to run, which no model may do: set rerank to none "
            "there, and name a program that you trust with --set search.judge.command=..."
        )
    return search


def check_files(folder: Path, bundle: BundleConfig, names: Iterable[str]) -> None:
    """Check files of a bundle against the hashes in its `config.json`.

    Raises:
        ModelError: a file is missing, or is not the one that was exported.
    """
    for name in names:
        if not (folder / name).is_file():
            raise ModelError(f"{folder / name}: missing from the bundle: {_REMEDY}")
        sha256 = sha256_of(folder / name)
        if sha256 != bundle.sha256.get(name):
            raise ModelError(
                f"{folder / name}: damaged, or from another model: its sha256 is {sha256}, but {BUNDLE_FILE} has "
                f"{bundle.sha256.get(name)}: {_REMEDY}"
            )


def hashed_or_there(folder: Path, bundle: BundleConfig, names: Iterable[str]) -> list[str]:
    """Return the optional files that `config.json` names or that are in the folder."""
    return [name for name in names if name in bundle.sha256 or (folder / name).exists()]


def read_tokenizers(folder: Path, bundle: BundleConfig) -> Tokenizers:
    """Check and load the tokenizers of a bundle, with their pretokenizers.

    Raises:
        ModelError: a file is missing, or is not the one that was exported.
        ConfigError: a package is missing that cut the training text.
    """
    check_files(folder, bundle, [*bundle.tokenizer_sizes, *bundle.pretokenizer_files])
    cut = Pretokenizers.read(folder)
    if cut.kinds != bundle.pretokenizers:
        raise ModelError(
            f"{folder / PRETOKENIZERS_FILE}: belongs to another model: it cuts text by {cut.kinds}, but the model was "
            f"trained on text cut by {bundle.pretokenizers}: {_REMEDY}"
        )
    cut.require_packages()
    tokenizers = Tokenizers.load(folder, tuple(bundle.tokenizer_sizes))
    sizes = {one.file.name: one.vocab_size for one in (tokenizers.source, tokenizers.target)}
    for name, size in bundle.tokenizer_sizes.items():
        if sizes[name] != size:
            raise ModelError(
                f"{folder / name}: belongs to another model: it has {sizes[name]:,} pieces, but the model has "
                f"{size:,}: {_REMEDY}"
            )
    return tokenizers


def sha256_of(file: Path) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal.

    `store/digests.py` has the same function, but a translator does without the store.
    """
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def precision_for(requested: Precision | Literal["fastest"], device: Device, bundle: BundleConfig) -> Precision:
    """Return the requested precision, or the fastest one for a device.

    A CPU computes in every precision, though slowly in fp16. A GPU computes only in fp16: for GPUs, ONNX Runtime has
    neither attention in fp32 nor operators for integers, so each layer would travel to the CPU and back.

    Raises:
        ConfigError: the bundle has no such precision, or the device cannot compute it.
    """
    fastest = [precision for precision in FASTEST[device] if precision in bundle.precisions]
    if requested == "fastest" and fastest:
        return fastest[0]
    if requested != "fastest" and requested in bundle.precisions and (device == "cpu" or requested in FASTEST[device]):
        return requested
    on_gpus = " and a GPU computes only in fp16" if device == "cuda" else ""
    remedy = "use the CPU, or export fp16 (export.precisions)" if on_gpus else "use one of these, or export it"
    raise ConfigError(
        f"search.precision={requested} on {device}: the model has {', '.join(bundle.precisions)},{on_gpus}: {remedy}"
    )
