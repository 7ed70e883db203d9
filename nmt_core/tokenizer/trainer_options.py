"""Options of SentencePiece's trainer that all vocabularies share."""

from typing import Any

from nmt_core.tokenizer.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

TRAINER_OPTIONS: dict[str, Any] = {
    "normalization_rule_name": "identity",  # text is already normalised, and decoding must restore it
    "pad_id": PAD_ID,
    "unk_id": UNK_ID,
    "bos_id": BOS_ID,
    "eos_id": EOS_ID,
    # SentencePiece silently skips longer lines. `clean` has already dropped what is too long.
    "max_sentence_length": 1 << 20,
    "num_threads": 1,  # with more threads, the sums of a unigram model differ from run to run
    "minloglevel": 2,
}
"""Options of `SentencePieceTrainer.Train`, except the kind, the size and the symbols."""
