"""The `tokenizer` stage: learn one SentencePiece model for both languages (Sennrich et al. 2016; Kudo 2018)."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import sentencepiece

from nmt_core.config import PipelineConfig, TokenizerConfig
from nmt_core.errors import ConfigError
from nmt_core.stage import Inputs, Job, StageReport
from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPM_FILE, UNK_ID, Tokenizer

_MAX_SENTENCE_BYTES = 16_384
_REPORTED_PAIRS = 2_000


class TokenizerReport(StageReport):
    """How well the pieces fit the text."""

    vocab_size: int
    source_tokens_per_word: float
    target_tokens_per_word: float
    unknown_tokens: int
    """<unk> in the pairs that the figures are measured on."""
    longest_pieces: list[str]


def run(config: PipelineConfig, inputs: Inputs, out: Path, job: Job) -> TokenizerReport:
    """Learn the pieces from the training text alone; write `spm.model`.

    Raises:
        ConfigError: the text has too few distinct pieces for `tokenizer.vocab_size`.
    """
    pairs = pl.read_parquet(inputs["split"].path / "train.parquet", columns=["source", "target"])
    sampled = pairs.sample(min(config.tokenizer.sample_pairs, len(pairs)), seed=config.tokenizer.seed)
    job.reporter.progress(0, 1, f"learning {config.tokenizer.vocab_size:,} pieces from {len(sampled):,} pairs")
    (out / SPM_FILE).write_bytes(_learn(config.tokenizer, sampled))
    job.reporter.progress(1, 1)
    return _measure(Tokenizer(out / SPM_FILE), sampled.head(_REPORTED_PAIRS), len(pairs))


def _learn(config: TokenizerConfig, pairs: pl.DataFrame) -> bytes:
    model = io.BytesIO()

    def lines() -> Iterator[str]:
        yield from pairs["source"]
        yield from pairs["target"]

    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=lines(),
            model_writer=model,  # a prefix of a path would be written into the model
            model_type=config.kind,
            vocab_size=config.vocab_size,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity",  # the text is normalised already, and what is scored must come back
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            max_sentence_length=_MAX_SENTENCE_BYTES,
            num_threads=1,  # with more, the sums of unigram differ from run to run
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        message = " ".join(str(error).split())
        if remedy := _remedy(message):
            raise ConfigError(
                f"tokenizer.vocab_size={config.vocab_size} does not fit {len(pairs):,} pairs of text: {remedy}"
            ) from None
        raise
    return model.getvalue()


def _remedy(message: str) -> str:
    """What to do about SentencePiece's complaint; empty if it is not about the size of the vocabulary."""
    if too_large := re.search(r"set it to a value <= (\d+)", message):
        return f"set it to {too_large[1]} or less, or give more text"
    if too_small := re.search(r"required_chars\. (\d+) vs (\d+)", message):
        return (
            f"the characters alone need {too_small[2]}; set it to that or more, or lower tokenizer.character_coverage"
        )
    return "set it lower, or give more text" if re.search(r"[Vv]ocabulary size|vocab_size", message) else ""


def _measure(tokenizer: Tokenizer, sample: pl.DataFrame, pairs: int) -> TokenizerReport:
    def tokens_per_word(side: str) -> tuple[float, int]:
        encoded = tokenizer.encode(sample[side].to_list())
        words = sum(len(line.split()) for line in sample[side])
        return sum(map(len, encoded)) / max(1, words), sum(row.count(UNK_ID) for row in encoded)

    source_rate, source_unknown = tokens_per_word("source")
    target_rate, target_unknown = tokens_per_word("target")
    vocabulary = [tokenizer.piece(index) for index in range(tokenizer.vocab_size)]
    return TokenizerReport(
        items_in=pairs,
        items_out=tokenizer.vocab_size,
        unit="pieces",
        vocab_size=tokenizer.vocab_size,
        source_tokens_per_word=round(source_rate, 3),
        target_tokens_per_word=round(target_rate, 3),
        unknown_tokens=source_unknown + target_unknown,
        longest_pieces=sorted(vocabulary, key=lambda piece: (-len(piece), piece))[:10],
    )
