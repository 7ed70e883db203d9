"""What a bundle holds, and whether it is whole.

A bundle is a folder that a machine without this pipeline can use: a folder with a set of graphs for each precision
(`search/onnx_step.py`), `spm.model` (or `spm.source.model` and `spm.target.model`), `pretokenizers.json` if text is cut
before those read it, and `config.json`, which names the sha256 of each of the others. `search.json` beside them, if
any, holds the settings of the search that the model was scored with. The set in fp32 has two more graphs, for attention
and alignments; bundles of earlier versions lack them. A model with a shortlist has `shortlist.npz`, and two more graphs
in each set.
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
from nmt_core.config.renamed import with_present_names
from nmt_core.errors import ConfigError, FormatError, ModelError
from nmt_core.search.onnx_session import FASTEST, Device
from nmt_core.search.onnx_step import (
    ALWAYS_READ,
    SHORTLIST_OUTPUT_FILE,
    SHORTLIST_STEP_FILE,
    STEP_FILE,
    UNSCORED_STEP_FILE,
    WHOLE_STEP_FILE,
)
from nmt_core.search.shortlist import SHORTLIST_FILE
from nmt_core.spelling import Punctuation, UnicodeForm
from nmt_core.tokenizer.pretokenize import PRETOKENIZERS_FILE, Pretokenizers
from nmt_core.tokenizer.tokenizer import SOURCE_SPM_FILE, SPM_FILE, TARGET_SPM_FILE, Tokenizers

BUNDLE_FILE = "config.json"
SEARCH_FILE = "search.json"
BUNDLE_FORMAT: Literal[3] = 3
ATTENTION_SET: Precision = "fp32"
"""The set that has the graphs for attention and alignments. Each set is a folder with the name of its precision."""

_REMEDY = "fetch or export the bundle again"


class ShortlistSizes(BaseModel):
    """What `config.json` says of the shortlist."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    frequent: int
    """Pieces that are in every list."""
    translations: int
    """Pieces that a source piece can add to it."""


class BundleConfig(BaseModel):
    """What `config.json` says of the files beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_names(cls, values: Any) -> Any:
        return with_present_names(values)

    format: Literal[3] = BUNDLE_FORMAT
    languages: LanguagesConfig
    unicode_form: UnicodeForm
    """Form in which the training text was written."""
    punctuation: Punctuation = "as_is"
    """Punctuation of the training text."""
    vocab_size: int
    """Pieces of the target's tokenizer and width of the output."""
    source_vocab_size: int | None = None
    """Pieces of the source's own tokenizer; None if one serves both languages."""
    source_pretokenizer: Pretokenizing = "none"
    """What cuts source text before the tokenizer; `pretokenizers.json` says all that is needed to do it."""
    target_pretokenizer: Pretokenizing = "none"
    """The same for the target side, whose translations are put together again."""
    special_ids: dict[Literal["pad", "unk", "bos", "eos"], int]
    architecture: Literal["transformer", "rnn"] = "transformer"
    rnn: RnnConfig | None = None
    """The recurrent network, if it is one."""
    d_model: int
    num_heads: int | None = None
    """None of a recurrent network."""
    encoder_layers: int
    decoder_layers: int
    max_positions: int
    """Longest sequence, in tokens, on either side; end mark included."""
    precisions: tuple[Precision, ...]
    """What there are graphs for, each in the folder of its name."""
    shortlist: ShortlistSizes | None = None
    """None: the model has no shortlist."""
    sha256: dict[str, str]
    """Of every other file of the bundle, by its path in it."""

    @model_serializer(mode="wrap")
    def _described(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A bundle without a shortlist is described as it was when there were none, so that they can read it."""
        described: dict[str, Any] = handler(self)
        if self.shortlist is None:
            described.pop("shortlist", None)
        return described

    @property
    def tokenizer_sizes(self) -> dict[str, int]:
        """Pieces of each tokenizer, by the name of its file."""
        if self.source_vocab_size:
            return {SOURCE_SPM_FILE: self.source_vocab_size, TARGET_SPM_FILE: self.vocab_size}
        return {SPM_FILE: self.vocab_size}

    @property
    def pretokenizers(self) -> tuple[Pretokenizing, Pretokenizing]:
        """Of source and target."""
        return self.source_pretokenizer, self.target_pretokenizer

    @property
    def pretokenizer_files(self) -> list[str]:
        """The file that says all about them, if text is cut at all."""
        return [] if self.pretokenizers == ("none", "none") else [PRETOKENIZERS_FILE]


def step_file(
    folder: Path, bundle: BundleConfig, precision: Precision, search: SearchConfig, *, scores: bool = True
) -> str:
    """The graph of a step with which a search is the fastest.

    Args:
        folder: of the bundle.
        bundle: what is in it; earlier versions had fewer graphs.
        precision: of the graphs.
        search: greedy search can do without scores, unless it has a shortlist; no other can.
        scores: whether they are wanted.

    Raises:
        ConfigError: there is no shortlist, and it is asked for.
    """
    if search.shortlist and not bundle.shortlist:
        raise ConfigError(
            f"search.shortlist=true: the model in {folder} has no shortlist: export it again with "
            "export.shortlist=true, or set search.shortlist=false"
        )
    if search.shortlist:
        return SHORTLIST_STEP_FILE
    wanted = STEP_FILE
    if search.method == "sample" and not search.top_k:
        wanted = WHOLE_STEP_FILE
    elif search.method == "beam" and search.beam_size == 1 and not scores:
        wanted = UNSCORED_STEP_FILE
    return wanted if f"{precision}/{wanted}" in bundle.sha256 else STEP_FILE


def graph_files(precision: Precision, step: str) -> list[str]:
    """Files that a search with this step reads beside the tokenizers, by their path in the bundle."""
    listed = step == SHORTLIST_STEP_FILE
    names = [f"{precision}/{name}" for name in (*ALWAYS_READ, step, *([SHORTLIST_OUTPUT_FILE] if listed else []))]
    return [*names, SHORTLIST_FILE] if listed else names


def read_bundle(folder: Path) -> BundleConfig:
    """Read `config.json`.

    Raises:
        FormatError: the bundle is of another format.
        ModelError: the folder is no bundle, or it is damaged.
    """
    file = folder / BUNDLE_FILE
    if not file.is_file():
        raise ModelError(f"{folder}: no bundle, for it has no {BUNDLE_FILE}: name the folder that `export` made")
    try:
        bundle = BundleConfig.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "whole file"
        if where == "format":
            raise FormatError(
                f"{file}: format {first['input']!r} is unknown here, where {BUNDLE_FORMAT} is read: export the "
                "model again, or install the nmt-pipeline that made the bundle"
            ) from None
        raise ModelError(f"{file}: damaged ({where}: {first['msg']}): {_REMEDY}") from None
    return bundle


def read_search(folder: Path) -> SearchConfig:
    """How the model is to be searched, as it was registered; the defaults, if the bundle does not say.

    Raises:
        ModelError: `search.json` says what no search can be.
    """
    file = folder / SEARCH_FILE
    if not file.exists():
        return SearchConfig()
    try:
        return SearchConfig.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "whole file"
        raise ModelError(f"{file}: {where}: {first['msg']}: correct it, or remove it for the defaults") from None


def check_files(folder: Path, bundle: BundleConfig, names: Iterable[str]) -> None:
    """Compare files of a bundle with the hashes that it names.

    Raises:
        ModelError: one is missing or another than the one that was exported.
    """
    for name in names:
        if not (folder / name).is_file():
            raise ModelError(f"{folder / name}: missing from the bundle: {_REMEDY}")
        found = sha256_of(folder / name)
        if found != bundle.sha256.get(name):
            raise ModelError(
                f"{folder / name}: sha256 is {found}, but {BUNDLE_FILE} says {bundle.sha256.get(name)}: "
                f"damaged, or of another model; {_REMEDY}"
            )


def hashed_or_there(folder: Path, bundle: BundleConfig, names: Iterable[str]) -> list[str]:
    """Those of the files, which a bundle need not have, that it names or that lie in its folder."""
    return [name for name in names if name in bundle.sha256 or (folder / name).exists()]


def read_tokenizers(folder: Path, bundle: BundleConfig) -> Tokenizers:
    """Check and load the tokenizers of a bundle, and what cuts text before them.

    Raises:
        ModelError: one is missing or is not the one that was exported.
        ConfigError: a package is missing that cuts the text as the training text was cut.
    """
    check_files(folder, bundle, [*bundle.tokenizer_sizes, *bundle.pretokenizer_files])
    cut = Pretokenizers.read(folder)
    if cut.kinds != bundle.pretokenizers:
        raise ModelError(
            f"{folder / PRETOKENIZERS_FILE}: text is cut by {cut.kinds}, but the model has learnt from text cut by "
            f"{bundle.pretokenizers}: the file belongs to another model; {_REMEDY}"
        )
    cut.require_packages()
    tokenizers = Tokenizers.load(folder, tuple(bundle.tokenizer_sizes))
    sizes = {one.file.name: one.vocab_size for one in (tokenizers.source, tokenizers.target)}
    for name, size in bundle.tokenizer_sizes.items():
        if sizes[name] != size:
            raise ModelError(
                f"{folder / name}: has {sizes[name]:,} pieces, but the model has {size:,}: "
                f"it belongs to another model; {_REMEDY}"
            )
    return tokenizers


def sha256_of(file: Path) -> str:
    """sha256 of a file's bytes, in hexadecimal. (`artifacts.py` has the same, but needs more than a translator has.)"""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def precision_for(asked: Precision | Literal["fastest"], device: Device, bundle: BundleConfig) -> Precision:
    """The precision that is asked for, or the fastest one for a device.

    A CPU computes in all of them, in fp16 slowly. A GPU computes in fp16 alone: of the operators of attention and of
    integers, ONNX Runtime has no others there, and each layer would travel to the CPU and back.

    Raises:
        ConfigError: the bundle has no such precision, or the device cannot compute it.
    """
    fastest = [precision for precision in FASTEST[device] if precision in bundle.precisions]
    if asked == "fastest" and fastest:
        return fastest[0]
    if asked != "fastest" and asked in bundle.precisions and (device == "cpu" or asked in FASTEST[device]):
        return asked
    on_gpus = " and a GPU computes in fp16 alone" if device == "cuda" else ""
    remedy = "ask for the CPU, or export fp16 (export.precisions)" if on_gpus else "ask for one of these, or export it"
    raise ConfigError(
        f"search.precision={asked} on {device}: the model has {', '.join(bundle.precisions)},{on_gpus}: {remedy}"
    )
