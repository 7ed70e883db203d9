"""A recipe so small that the whole pipeline takes seconds."""

from typing import Any

from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.table import stages_of

SMALL: dict[str, Any] = {
    "corpus.toy.pairs": 2_000,
    "corpus.toy.held_out": 20,
    "tokenizer.vocab_size": 700,
    "model.d_model": 32,
    "model.d_ff": 64,
    "model.num_heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "train.max_updates": 40,
    "train.warmup_updates": 10,
    "train.max_tokens": 1_024,
    "train.micro_batch_tokens": 1_024,
    "train.validate_every": 20,
    "train.checkpoint_every": 20,
    "train.keep_checkpoints": 2,
    "average.checkpoints": 2,
    "export.parity_sentences": 5,
    "export.max_bleu_loss": 100,  # so little training makes a model that translates nothing, whose BLEU is 0
    "registry.min_score": 0,
    "export.precisions": "[fp32, int8]",  # a third takes time; other tests export all
}
"""Changes of `quickstart`, by option. What they train translates nothing."""

AT_EASE = {
    "min_language_probability": 0,
    "min_script_share": 0,
    "max_length_ratio": 100,
    "max_copied_share": 1,
    "numbers_must_match": False,
}
"""Options of `clean` that let made-up sentences of a few words pass. Copies and test sentences are dropped as ever."""
STEPS = (*(stage.name for stage in stages_of(load_recipe("quickstart"))), "register")
"""Steps of a run of `quickstart`, which has no optional stage."""
