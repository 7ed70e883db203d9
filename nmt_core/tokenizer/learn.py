"""The `tokenizer` stage: learn one SentencePiece model for both languages (Sennrich et al. 2016; Kudo 2018)."""

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
    """Learn the pieces from the training text alone; write `spm.model` and `spm.vocab`.

    Raises:
        ConfigError: the text has too few distinct pieces for `tokenizer.vocab_size`.
    """
    pairs = pl.read_parquet(inputs["split"].path / "train.parquet", columns=["source", "target"])
    sampled = pairs.sample(min(config.tokenizer.sample_pairs, len(pairs)), seed=config.tokenizer.seed)
    job.reporter.progress(0, 1, f"learning {config.tokenizer.vocab_size:,} pieces from {len(sampled):,} pairs")
    _learn(config.tokenizer, sampled, out / "spm")
    job.reporter.progress(1, 1)
    return _measure(Tokenizer(out / SPM_FILE), sampled.head(_REPORTED_PAIRS), len(pairs))


def _learn(config: TokenizerConfig, pairs: pl.DataFrame, prefix: Path) -> None:
    def lines() -> Iterator[str]:
        yield from pairs["source"]
        yield from pairs["target"]

    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=lines(),
            model_prefix=str(prefix),
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
        supported = re.search(r"<= (\d+)", message)
        remedy = f"set it to {supported[1]} or less" if supported else "set it lower, or give more text"
        if re.search(r"[Vv]ocabulary size|vocab_size|required_chars", message):
            raise ConfigError(
                f"tokenizer.vocab_size={config.vocab_size} does not fit {len(pairs):,} pairs of text: {remedy}"
            ) from None
        raise


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
