"""Learn SentencePiece models, one for both languages or one each, or reuse existing ones: the stage `tokenizer`.

A model is byte-pair encoding (Sennrich et al. 2016), a unigram model (Kudo 2018), characters, or the most frequent
words. It is learnt from a seeded sample of the training text that `split` has mixed. The trainer reads the sample line
by line, and nothing else holds it in memory.
"""

import io
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from nmt_core.config import SIDES, MixConfig, PipelineConfig, Side, TokenizerConfig
from nmt_core.config.section import later
from nmt_core.errors import ConfigError
from nmt_core.stages.stage import Inputs, Job, StageReport
from nmt_core.tokenizer.extend import Extension, extended, read_extensions, share_cut_as_before, write_extensions
from nmt_core.tokenizer.fit import Fit, measure, unused_pieces
from nmt_core.tokenizer.foreign import sentencepiece_model
from nmt_core.tokenizer.pretokenize import (
    BOUNDARY,
    PRETOKENIZERS_FILE,
    Morphemes,
    Pretokenizer,
    Pretokenizers,
    SideConfig,
)
from nmt_core.tokenizer.sample import Sample, count_pairs, text_shards
from nmt_core.tokenizer.start import files_to_take, foreign_files
from nmt_core.tokenizer.tokenizer import (
    SOURCE_SPM_FILE,
    SPACE_MARK,
    SPM_FILE,
    TARGET_SPM_FILE,
    WRITTEN_MARK,
    Tokenizer,
    Tokenizers,
)
from nmt_core.tokenizer.trainer_options import TRAINER_OPTIONS

_MEASURED_PAIRS = 100_000
_EXAMPLES = 10
_SIDES_OF: dict[str, Sequence[Side]] = {SPM_FILE: SIDES, SOURCE_SPM_FILE: SIDES[:1], TARGET_SPM_FILE: SIDES[1:]}
_RESERVED = re.compile("<(pad|unk|s|/s|0x[0-9A-F]{2})>")


class LanguageFit(Fit):
    """Fit of the pieces to the text of one language on one side."""

    language: str
    side: Side
    lines: int
    """Number of sentences on which it is measured."""
    cut_as_before: float | None = later(None)
    """Share of these sentences that the vocabulary cuts into the same pieces as the one that it extends. None means
    that it extends none."""


class TokenizerReport(StageReport):
    """Report of the `tokenizer` stage: how well the pieces fit the text."""

    vocab_size: int
    """Number of pieces of the target vocabulary, or of the joint one, the four special pieces included."""
    sampled_pairs: int
    """Number of pairs that the pieces were learnt from. 0 means that the vocabulary was reused."""
    added_pieces: dict[str, int] = later({})
    """Number of pieces that were appended to each reused vocabulary, tokens of languages included, by its file."""
    measured_pairs: int
    """Number of sampled pairs on which `source`, `target` and `unused_pieces` are measured."""
    source: Fit
    target: Fit
    by_language: tuple[LanguageFit, ...] = later(())
    """Fit by language and side, with many pairs of languages. Empty means that there is one pair."""
    unused_pieces: dict[str, int]
    """Number of pieces that the measured pairs do not use, bytes excluded, by vocabulary file."""
    unused_examples: list[str]
    longest_pieces: list[str]


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> TokenizerReport:
    """Learn the pieces from the training text only, or copy them from `tokenizer.start_from`.

    Writes `spm.model`, or `spm.source.model` and `spm.target.model`. If text is pretokenized, also writes
    `pretokenizers.json`. With `tokenizer.added_pieces`, the reused vocabulary is extended, and `extensions.json` says
    how.

    Raises:
        ConfigError: the text has too few distinct pieces for `tokenizer.vocab_size`, a symbol cannot be a piece, or a
            package for pretokenization is not installed.
        StageError: `tokenizer.start_from` has no vocabulary.
    """
    options = config.tokenizer
    shards = text_shards(inputs["split"].path)
    pairs = sum(map(count_pairs, shards))
    sample = Sample(shards, options.pairs_to_sample / max(1, pairs), options.seed)
    sampled = 0 if options.start_from else len(sample)
    if options.start_from:
        files = _take_over(config, out, sample)
    else:
        cut = pretokenizers(config)
        cut.write(out)
        files = [SPM_FILE] if options.vocabularies == "joint" else [SOURCE_SPM_FILE, TARGET_SPM_FILE]
        for number, file in enumerate(files):
            job.reporter.progress(number, len(files), f"learning {file} from {sampled:,} pairs")
            learner = _Learner(config, sample, {side: getattr(cut, side).make() for side in _SIDES_OF[file]})
            (out / file).write_bytes(learner.learn())
    job.reporter.progress(1, 1)
    measured = replace(sample, share=min(sample.share, _MEASURED_PAIRS / max(1, pairs)))
    tokenizers = Tokenizers.load(out)
    report = _report(tokenizers, files, measured, items_in=pairs, sampled_pairs=sampled)
    if not config.languages.pairs:
        return report
    extensions = read_extensions(out)
    added = {name: len(extension.cuts) for name, extension in extensions.items()}
    older = {side: extensions[name].size for name in extensions for side in _SIDES_OF[name]}
    fits = _fits_by_language(tokenizers, measured, older)
    return report.model_copy(update={"by_language": fits, "added_pieces": added})


def _take_over(config: PipelineConfig, out: Path, sample: Sample) -> list[str]:
    """Copy, convert or extend the files of `tokenizer.start_from`, and return the names of the SentencePiece files.

    Raises:
        ConfigError: a symbol is not a piece of that vocabulary, so it would be split, or SentencePiece cannot compute
            what the vocabulary of another program describes.
    """
    start_from = Path(config.tokenizer.start_from)
    models = _existing_models(start_from)
    for name, model in models.items():
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        _require_language_tokens(config, name, proto)
        pieces = {piece.piece for piece in proto.pieces}
        if missing := [
            symbol for symbol in symbols(config.tokenizer, config.mix, _SIDES_OF[name]) if symbol not in pieces
        ]:
            raise ConfigError(
                f"tokenizer.start_from={start_from}: {name} has no piece {missing[0]!r}: remove it from "
                "tokenizer.user_symbols or mix.corpora, or learn a vocabulary and train from scratch"
            )
    if (cut := start_from / PRETOKENIZERS_FILE).is_file():
        shutil.copyfile(cut, out / cut.name)
    if config.tokenizer.added_pieces:
        models = _extend(config, models, out, sample)
    for name, model in models.items():
        (out / name).write_bytes(model)
    return list(models)


def _extend(config: PipelineConfig, models: Mapping[str, bytes], out: Path, sample: Sample) -> dict[str, bytes]:
    """Return the models with the missing tokens and the pieces of new languages, and write `extensions.json`."""
    cut, options = Pretokenizers.read(out), config.tokenizer
    makers = {side: getattr(cut, side).make() for side in SIDES}
    extensions: dict[str, Extension] = {}
    longer = {}
    for name, model in models.items():
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        pieces = {piece.piece for piece in proto.pieces}
        tokens = [token for token in _language_tokens(config, _SIDES_OF[name]) if token not in pieces]
        texts = [
            (limit, partial(_lines_in, language, sample, {side: makers[side] for side in _SIDES_OF[name]}))
            for language, limit in sorted(options.added_pieces.items())
        ]
        longer[name], extensions[name] = extended(model, tokens, texts, options.character_coverage)
    write_extensions(out, extensions)
    return longer


def _lines_in(language: str, sample: Sample, cut: Mapping[Side, Pretokenizer | None]) -> Iterator[str]:
    """Yield the sampled lines in one language on these sides, as SentencePiece reads them."""
    for side, pretokenizer in cut.items():
        for pair, line in zip(sample.lines("pair"), sample.lines(side), strict=True):
            if pair.split("-")[SIDES.index(side)] == language:
                yield (pretokenizer.split(line) if pretokenizer else line).replace(SPACE_MARK, WRITTEN_MARK)


def _require_language_tokens(config: PipelineConfig, name: str, model: sentencepiece_model_pb2.ModelProto) -> None:
    """Check that an existing vocabulary reserves a piece for each target language.

    Raises:
        ConfigError: a piece is missing, or text can spell it.
    """
    reserved = {piece.piece for piece in model.pieces if piece.type == piece.CONTROL}
    if config.tokenizer.added_pieces:  # then missing tokens are appended, unless text can spell them
        reserved |= set(config.languages.tags) - {piece.piece for piece in model.pieces}
    if missing := [token for token in _language_tokens(config, _SIDES_OF[name]) if token not in reserved]:
        raise ConfigError(
            f"tokenizer.start_from={config.tokenizer.start_from}: {name} reserves no piece {missing[0]!r} for a target "
            f"language: name it in tokenizer.added_pieces, such as {{{missing[0][2:-1]}: 1000}}, to extend the "
            "vocabulary, or remove its pairs from languages.pairs"
        )


def _language_tokens(config: PipelineConfig, sides: Sequence[Side]) -> list[str]:
    """Return the tokens of the target languages that the vocabulary of these sides reserves."""
    languages = config.languages
    return list(languages.tags) if languages.tag_side in sides else []


def _existing_models(start_from: Path) -> dict[str, bytes]:
    """Return the SentencePiece models of `tokenizer.start_from`, converted if need be, by their names in the stage.

    Raises:
        ConfigError: SentencePiece cannot compute what the vocabulary of another program describes.
        ModelError: a file is not a SentencePiece model of this pipeline.
        StageError: there is no vocabulary.
    """
    if foreign := foreign_files(start_from):
        names = [SPM_FILE] if len(foreign) == 1 else [SOURCE_SPM_FILE, TARGET_SPM_FILE]
        return {name: sentencepiece_model(file) for name, file in zip(names, foreign, strict=True)}
    return {file.name: Tokenizer(file).serialised() for file in files_to_take(str(start_from))}


def _report(tokenizers: Tokenizers, files: Sequence[str], sample: Sample, **counts: int) -> TokenizerReport:
    source = measure(tokenizers.source, list(sample.lines("source")))
    target = measure(tokenizers.target, list(sample.lines("target")))
    vocabularies = {files[0]: tokenizers.source, files[-1]: tokenizers.target}  # one entry if the vocabulary is joint
    used = {file: np.zeros(tokenizer.vocab_size, np.int64) for file, tokenizer in vocabularies.items()}
    used[files[0]] += source.used_V
    used[files[-1]] += target.used_V
    unused = {file: unused_pieces(tokenizer, used[file]) for file, tokenizer in vocabularies.items()}
    pieces = {tokenizer.piece(index) for tokenizer in vocabularies.values() for index in range(tokenizer.vocab_size)}
    return TokenizerReport(
        items_out=sum(tokenizer.vocab_size for tokenizer in vocabularies.values()),
        unit="pieces",
        vocab_size=tokenizers.target.vocab_size,
        measured_pairs=len(sample),
        source=source.fit,
        target=target.fit,
        unused_pieces={file: len(pieces_unused) for file, pieces_unused in unused.items()},
        unused_examples=[piece for pieces_unused in unused.values() for piece in pieces_unused[:_EXAMPLES]],
        longest_pieces=sorted(pieces, key=lambda piece: (-len(piece), piece))[:_EXAMPLES],
        **counts,
    )


def _fits_by_language(tokenizers: Tokenizers, sample: Sample, older: Mapping[Side, int]) -> tuple[LanguageFit, ...]:
    """Return the fit of the pieces to each language on each side. A rare language may fit badly unnoticed otherwise.

    Args:
        tokenizers: tokenizers of both sides.
        sample: pairs to measure on.
        older: number of pieces of the vocabularies that they extend, by side. Empty means that they extend none.
    """
    fits = []
    pairs = [pair.split("-") for pair in sample.lines("pair")]
    for number, side in enumerate(SIDES):
        lines: dict[str, list[str]] = {}
        for pair, line in zip(pairs, sample.lines(side), strict=True):
            lines.setdefault(pair[number], []).append(line)
        for language, own in sorted(lines.items()):
            tokenizer = getattr(tokenizers, side)
            same = share_cut_as_before(tokenizer, older[side], own) if older else None
            fit = measure(tokenizer, own).fit.model_dump()
            fits.append(LanguageFit(**fit, language=language, side=side, lines=len(own), cut_as_before=same))
    return tuple(fits)


def symbols(options: TokenizerConfig, mix: MixConfig, sides: Sequence[Side]) -> list[str]:
    """Return the pieces that are never split: user symbols, and the tags that `mix` puts before source sentences.

    A symbol after a space forms one piece with the space, like the first piece of any word. So each symbol has two
    spellings. A tag is always the first word.

    Raises:
        ConfigError: a symbol is spelt like a special piece, which text must never become.
    """
    if taken := [symbol for symbol in options.user_symbols if _RESERVED.fullmatch(symbol)]:
        raise ConfigError(f"tokenizer.user_symbols: {taken[0]!r} is a special piece: choose another spelling")
    tags = [SPACE_MARK + rule.tag for rule in mix.corpora if rule.tag and "source" in sides]
    spellings = [spelling for symbol in options.user_symbols for spelling in (SPACE_MARK + symbol, symbol)]
    return list(dict.fromkeys(tags + spellings))


def pretokenizers(config: PipelineConfig) -> Pretokenizers:
    """Return the pretokenization of both sides in a recipe. It never splits a symbol, nor a tag of `mix`."""
    options, languages = config.tokenizer, config.languages
    tags = [rule.tag for rule in config.mix.corpora if rule.tag]
    of_source = tuple(dict.fromkeys([*tags, *options.user_symbols]))
    return Pretokenizers(
        source=SideConfig(kind=options.pretokenize_source, language=languages.source, symbols=of_source),
        target=SideConfig(kind=options.pretokenize_target, language=languages.target, symbols=options.user_symbols),
    )


@dataclass(frozen=True)
class _Learner:
    """Learner of one vocabulary."""

    config: PipelineConfig
    sample: Sample
    cut: Mapping[Side, Pretokenizer | None]
    """Pretokenizer of each side that the vocabulary covers. None means none."""

    def learn(self) -> bytes:
        """Learn the model, and return it as a protocol buffer."""
        options, model = self.config.tokenizer, io.BytesIO()
        kept_whole = symbols(options, self.config.mix, tuple(self.cut))
        is_own = "source" not in self.cut  # the vocabulary is the target's own
        kind = options.kinds[is_own]
        size = "target_vocab_size" if is_own and options.target_vocab_size else "vocab_size"
        try:
            sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=self._lines(),
                model_writer=model,  # the model would contain the path of a `model_prefix`
                model_type=kind,
                vocab_size=getattr(options, size),
                hard_vocab_limit=kind in ("bpe", "unigram"),
                character_coverage=options.character_coverage,
                byte_fallback=options.byte_fallback,
                split_digits=options.split_digits,
                control_symbols=_language_tokens(self.config, tuple(self.cut)),
                user_defined_symbols=[] if kind == "word" else self._boundary + kept_whole,
                **TRAINER_OPTIONS,
            )
        except (RuntimeError, OSError) as error:
            message = " ".join(str(error).split())
            if remedy := _remedy(message):
                raise ConfigError(
                    f"tokenizer.{size}={getattr(options, size)} does not fit {len(self.sample):,} pairs of text: "
                    f"{remedy}"
                ) from None
            raise
        return _with_words(model.getvalue(), kept_whole) if kind == "word" else model.getvalue()

    def _lines(self) -> Iterator[str]:
        for side, pretokenizer in self.cut.items():
            lines = self.sample.lines(side)
            cut = map(pretokenizer.split, lines) if pretokenizer else lines
            yield from (line.replace(SPACE_MARK, WRITTEN_MARK) for line in cut)

    @property
    def _boundary(self) -> list[str]:
        """Boundary mark between morphemes, in a list. The list is empty if no side is split into morphemes."""
        is_marked = any(isinstance(pretokenizer, Morphemes) for pretokenizer in self.cut.values())
        return [BOUNDARY] if is_marked else []


def _with_words(serialised: bytes, symbols: Sequence[str]) -> bytes:
    """Return a vocabulary of words that contains the symbols in place of its least frequent words.

    SentencePiece would split the text at user-defined symbols and miss the words next to them. Every word follows a
    space, so of the two spellings of a symbol the one with the space mark is enough.
    """
    model = sentencepiece_model_pb2.ModelProto.FromString(serialised)
    known = {piece.piece for piece in model.pieces}
    missing = [symbol for symbol in symbols if symbol.startswith(SPACE_MARK) and symbol not in known]
    for piece, symbol in zip(reversed(model.pieces), missing, strict=False):
        piece.piece = symbol
    return bytes(model.SerializeToString())


def _remedy(message: str) -> str:
    """Return the remedy for an error of SentencePiece. Empty if the error is not about the size of the vocabulary."""
    if too_large := re.search(r"set it to a value <= (\d+)", message):
        return f"set it to {too_large[1]} or less, or give more text"
    if too_small := re.search(r"required_chars\. (\d+) vs (\d+)", message):
        return (
            f"the characters, bytes and symbols alone need {too_small[2]}; set it to that or more, or lower "
            "tokenizer.character_coverage"
        )
    return "set it lower, or give more text" if re.search(r"[Vv]ocabulary size|vocab_size", message) else ""
