"""Run stage `export`: write the averaged model as a bundle that needs no PyTorch, if it passes the gates."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_model

from nmt_core.bundle.folder import ATTENTION_SET, BUNDLE_FILE, BundleConfig, ShortlistSizes, sha256_of
from nmt_core.config import PRECISIONS, ExportConfig, ModelConfig, PipelineConfig, Precision
from nmt_core.drift.training import PROFILE_FILES, write_training_profiles
from nmt_core.errors import ModelError
from nmt_core.export.dev import Dev
from nmt_core.export.gates import Gates, onnx_kernels
from nmt_core.export.graphs import export_graphs
from nmt_core.export.lexicon import make_shortlist
from nmt_core.export.losses import Change
from nmt_core.export.members import Member, find_members
from nmt_core.export.parity import Parity
from nmt_core.models.build import build_model
from nmt_core.models.ensemble import Ensemble, members_of
from nmt_core.models.model import TranslationModel
from nmt_core.search.alignment import ALIGNMENT_FILE
from nmt_core.search.attention import ATTENTION_FILE, WORKED_FILE
from nmt_core.search.onnx_session import Device
from nmt_core.search.onnx_step import SET_FILES, SHORTLIST_FILES, UNSCORED_STEP_FILE
from nmt_core.search.sentences import share_with_several
from nmt_core.search.shortlist import SHORTLIST_FILE, Shortlist
from nmt_core.spelling import Spelling
from nmt_core.stages.stage import Inputs, Job, Reporter, StageReport
from nmt_core.tokenizer.pretokenize import Pretokenizers
from nmt_core.tokenizer.sample import Sample, count_pairs, text_shards
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizers, files_of
from nmt_core.train.weights import MODEL_FILE

MAX_POSITIONS = 2_048
"""Number of positions of an exported model. Positions are computed, so that any number is possible."""
_ROWS_LOOKED_AT = 20_000
"""Training rows in which sentences are counted."""
_SEED = 1
_UNASKED = "unless search.shortlist=never"


class ExportReport(StageReport):
    """Results of the gates, and size of the bundle. Items are parameters. Tied parameters count once."""

    max_difference: float
    """Largest difference of log-probabilities between PyTorch and ONNX Runtime, in nats."""
    identical_beams: int
    """Number of held-out sentences with the same beams in both, except for ties. The stage fails unless this is all."""
    compared_sentences: int
    """Number of held-out sentences that both translated."""
    bleu: dict[str, float]
    """BLEU of the dev sentences by precision, and by precision with the shortlist if there is one. It is not comparable
    with other scores, since there may be few sentences."""
    tokens_per_second: dict[str, float]
    """Target tokens per second while the dev sentences were translated, by the keys of `bleu`. End marks count."""
    devices: dict[str, Device]
    """Device of each translation, by the keys of `bleu`. Without a GPU, fp16 is computed on the CPU, which is slow."""
    bleu_changes: dict[str, Change]
    """Change of BLEU with its interval: a precision against fp32, the shortlist against the same precision without."""
    not_published: dict[str, str]
    """Reason why a precision, its greedy search without scores, or the shortlist is not in the bundle, by name."""
    shortlist_use: str = ""
    """Condition on which beam search uses the shortlist, with the reason if it must be requested. Empty without one."""
    costs: list[str]
    """Line for each thing that is not in the bundle, with the reason and the cost in speed."""
    members: tuple[Member, ...] = ()
    """Members of the exported ensemble. Empty if one model is exported."""
    bytes: dict[str, int]
    """Size of each file of the bundle in bytes, by its path in the bundle."""


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> ExportReport:
    """Export weights and tokenizer as a bundle that translates as PyTorch does.

    Raises:
        StageError: ONNX Runtime and PyTorch differ by more than `export.parity_tolerance`, or in any beam.
        ModelError: the weights do not fit `model` or the tokenizer.
        DataError: the dev set has no text, or there is no training text to make a shortlist from.
    """
    folder, reporter = inputs["tokenizer"].path, job.reporter
    tokenizers = Tokenizers.load(folder)
    members = find_members(inputs["average"], config, folder)
    files = [weights.file for weights in members] or [inputs["average"].path / MODEL_FILE]
    model = load_members(files, config.model, tokenizers)
    gates = Gates(model, tokenizers, Dev.read(inputs["split"].path), config, job.resources.threads)
    steps, listed = steps_of(config.export), config.export.shortlist
    if listed:
        reporter.progress(0, steps, "learning the shortlist")
        gates.shortlist = make_shortlist(inputs["split"].path, tokenizers, config.export)
        gates.shortlist.save(out / SHORTLIST_FILE)
    parity = write_graphs(gates, model, config.export, out, reporter)
    shortlist_use = ""
    if listed:
        reporter.progress(steps - 1, steps, "comparing with and without the shortlist")
        shortlist_use = _judge_shortlist(gates, out, reporter)
    for name in files_of(folder):
        shutil.copyfile(folder / name, out / name)
    several = rows_with_several_sentences(inputs["split"].path, config)
    write_training_profiles(inputs["split"].path, tokenizers.source, _spelling(config), config.languages, out)
    bundle = describe_bundle(out, config, model, several, is_listed_by_default=shortlist_use == _UNASKED)
    (out / BUNDLE_FILE).write_text(bundle.model_dump_json(indent=1) + "\n", encoding="utf-8")
    reporter.progress(steps, steps, f"largest difference {parity.max_difference:.1e}")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return ExportReport(
        items_in=parameters,
        items_out=parameters,
        unit="parameters",
        max_difference=parity.max_difference,
        identical_beams=parity.identical,
        compared_sentences=parity.sentences,
        bleu=gates.bleu,
        tokens_per_second=gates.tokens_per_second,
        devices=gates.devices,
        bleu_changes=gates.changes,
        not_published=gates.refused,
        shortlist_use=shortlist_use,
        costs=gates.costs(),
        members=tuple(weights.member for weights in members),
        bytes=_sizes(out),
    )


def steps_of(options: ExportConfig) -> int:
    """Return the number of steps of an export, for its progress."""
    return 2 + len(_others(options)) + options.shortlist


def _others(options: ExportConfig) -> list[Precision]:
    return [precision for precision in options.precisions if precision != "fp32"]


def write_graphs(gates: Gates, model: TranslationModel, options: ExportConfig, out: Path, reporter: Reporter) -> Parity:
    """Write the graphs of each precision that passes its gate, and the graphs of the shortlist if it is requested.

    Raises:
        StageError: ONNX Runtime and PyTorch differ by more than `export.parity_tolerance`, or in any beam.
        DataError: the dev set has no text.
    """
    steps, listed = steps_of(options), options.shortlist
    reporter.progress(0, steps, "exporting fp32")
    export_graphs(onnx_kernels(model), out / ATTENTION_SET, with_attention=True, with_shortlist=listed)
    reporter.progress(1, steps, "comparing fp32 with PyTorch")
    parity = gates.check_parity(out / "fp32")
    gates.measure(out, "fp32")
    _judge_unscored(gates, out, reporter)
    for number, precision in enumerate(_others(options), 2):
        reporter.progress(number, steps, f"exporting {precision}")
        _export_judged(gates, precision, out, reporter, with_shortlist=listed)
    return parity


def _sizes(folder: Path) -> dict[str, int]:
    """Return the size of each file of a bundle in bytes, by its path in it."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}


def _spelling(config: PipelineConfig) -> Spelling:
    return Spelling.of(config.clean, config.languages.source)


def _export_judged(gates: Gates, precision: Precision, out: Path, reporter: Reporter, *, with_shortlist: bool) -> None:
    """Export a precision in its first degree that passes the gate. If none passes, leave the precision out."""
    if reason := gates.cannot_judge(precision) or gates.cannot_make(precision):
        reporter.log(f"{precision} is not published: {reason}")
        return
    for degree in gates.degrees(precision):
        export_graphs(gates.kernels(precision, degree), out / precision, with_shortlist=with_shortlist)
        if not (reason := gates.refuse(out, precision, degree)):
            return
        shutil.rmtree(out / precision)
        reporter.log(f"{precision}{f' with its {degree}' if degree else ''} is not published: {reason}")


def _judge_unscored(gates: Gates, out: Path, reporter: Reporter) -> None:
    """Remove the step without scores from the fp32 set if its screen drops the likeliest token."""
    if reason := gates.refuse_unscored(out / "fp32", "fp32"):
        (out / "fp32" / UNSCORED_STEP_FILE).unlink()
        reporter.log(f"fp32 without scores is not published: {reason}")


def _judge_shortlist(gates: Gates, out: Path, reporter: Reporter) -> str:
    """Remove the shortlist from the bundle if it loses too much BLEU. Return the condition of its use, for people."""
    if reason := gates.cannot_judge("shortlist") or gates.refuse_shortlist(out, _precisions(out)):
        for name in _shortlist_files(out):
            (out / name).unlink()
        reporter.log(f"the shortlist is not published: {reason}")
        return ""
    reason = gates.shortlist_only_on_request(_precisions(out))
    use = f"only with search.shortlist=always: {reason}" if reason else _UNASKED
    reporter.log(f"beam search uses the shortlist {use}")
    return use


def _precisions(folder: Path) -> list[Precision]:
    """Return the precisions for which a bundle has sets of graphs."""
    return [precision for precision in PRECISIONS if (folder / precision).is_dir()]


def _shortlist_files(folder: Path) -> list[str]:
    """Return the paths of a bundle's files that belong to its shortlist."""
    if not (folder / SHORTLIST_FILE).is_file():
        return []
    return [SHORTLIST_FILE, *(f"{precision}/{name}" for precision in _precisions(folder) for name in SHORTLIST_FILES)]


def load_members(files: Sequence[Path], config: ModelConfig, tokenizers: Tokenizers) -> TranslationModel:
    """Load the model of one file of weights, or the ensemble of several (see `load_weights`)."""
    models = [load_weights(file, config, tokenizers) for file in files]
    return Ensemble(models).eval() if models[1:] else models[0]


def load_weights(file: Path, config: ModelConfig, tokenizers: Tokenizers) -> TranslationModel:
    """Load a model, in evaluation mode, from a file that `safetensors.torch.save_model` wrote.

    Raises:
        ModelError: the file is missing, or its tensors do not fit the model.
    """
    vocab_size = tokenizers.target.vocab_size
    model = build_model(config, vocab_size, MAX_POSITIONS, tokenizers.source_vocab_size)
    try:
        load_model(model, file)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"{file}: does not hold the weights of this model with {vocab_size:,} pieces ({error}): average the "
            "checkpoints of the same recipe again"
        ) from None
    return model.eval().requires_grad_(False)


def rows_with_several_sentences(split: Path, config: PipelineConfig) -> float | None:
    """Return the share of rows with several source sentences in a sample of the training text, or None if it is empty.

    Args:
        split: folder of the artifact `split`.
        config: recipe, with the languages.
    """
    shards = text_shards(split)
    rows = sum(map(count_pairs, shards))
    if not rows:
        return None
    sample = Sample(shards, min(1.0, _ROWS_LOOKED_AT / rows), _SEED)
    return round(share_with_several(list(sample.lines("source")), config.languages.source), 4)


def describe_bundle(
    folder: Path,
    config: PipelineConfig,
    model: TranslationModel,
    several_sentences: float | None = None,
    *,
    is_listed_by_default: bool = False,
) -> BundleConfig:
    """Return the content of `config.json` for a folder that holds the other files of a bundle.

    Args:
        folder: folder of the bundle.
        config: recipe.
        model: model in the bundle.
        several_sentences: see `rows_with_several_sentences`.
        is_listed_by_default: see `ShortlistSizes.by_default`.
    """
    precisions = _precisions(folder)
    graphs = [f"{precision}/{name}" for precision in precisions for name in SET_FILES]
    graphs = [name for name in graphs if not name.endswith(UNSCORED_STEP_FILE) or (folder / name).is_file()]
    source_pretokenizer, target_pretokenizer = Pretokenizers.read(folder).kinds
    views = [f"{ATTENTION_SET}/{name}" for name in (ATTENTION_FILE, ALIGNMENT_FILE, WORKED_FILE)]
    graphs += [name for name in views if (folder / name).is_file()]
    graphs += _shortlist_files(folder)
    graphs += sorted(file.name for file in folder.glob(PROFILE_FILES))
    return BundleConfig(
        languages=config.languages,
        unicode_form=config.clean.unicode_form,
        punctuation=config.clean.punctuation,
        vocab_size=model.vocab_size,
        source_vocab_size=model.source_vocab_size,
        source_pretokenizer=source_pretokenizer,
        target_pretokenizer=target_pretokenizer,
        special_ids={"pad": PAD_ID, "unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID},
        architecture=model.config.architecture,
        rnn=None if model.config.architecture == "transformer" else model.config.rnn,
        d_model=model.config.d_model,
        num_heads=model.config.num_heads if model.config.architecture == "transformer" else None,
        encoder_layers=model.config.encoder_layers,
        decoder_layers=model.config.decoder_layers,
        max_positions=model.max_positions,
        members=len(members_of(model)) if isinstance(model, Ensemble) else None,
        precisions=tuple(precisions),
        shortlist=_shortlist_sizes(folder, model, is_listed_by_default) if SHORTLIST_FILE in graphs else None,
        rows_with_several_sentences=several_sentences,
        sha256={name: sha256_of(folder / name) for name in (*graphs, *files_of(folder))},
    )


def _shortlist_sizes(folder: Path, model: TranslationModel, by_default: bool) -> ShortlistSizes:
    source_pieces = model.source_vocab_size or model.vocab_size
    shortlist = Shortlist.load(folder / SHORTLIST_FILE, source_pieces, model.vocab_size)
    frequent, translations = len(shortlist.frequent_F), shortlist.translations_VK.shape[1]
    return ShortlistSizes(frequent=frequent, translations=translations, by_default=by_default)
