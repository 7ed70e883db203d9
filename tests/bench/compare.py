"""Experiments of the literature in small, each one call of `nmt compare`: tables of means and spreads, as Markdown.

    .venv/bin/python tests/bench/compare.py {context,table3,korean,averaging,regularisation}
        [--recipe RECIPE] [--text FOLDER] [--seeds N] [--home NMT_HOME] [--set SECTION.KEY=VALUE ...]

- context: what a decoder sees of the source. One vector for all of it (Cho et al. 2014), what an alignment model weighs
  for each step (Bahdanau et al. 2015), and the attention of a Transformer, on the same text, with about as many
  parameters, and for as many updates; BLEU by the length of the source is the second table.
- table3: the rows of Table 3 of Vaswani et al. 2017, in the proportions of the recipe: heads, widths of keys, layers,
  widths, dropout, smoothing, learned positions; and rotary ones, which the paper does not have.
- korean: pieces of Korean, from characters to morphemes: the recipes korean-*, on the text in FOLDER: `train`, `dev`
  and `test`, each as `.en.gz` and `.ko.gz`. Of the training text 100,000 pairs are taken at most.
- averaging: one training for each seed, whose checkpoints are taken alone, averaged (the last, the best), or followed
  by a moving average. The stage `average` goes on with the best checkpoint alone where that has the lower dev loss, so
  that no row can be worse than "alone" on dev.
- regularisation: dropout and label smoothing, on and off.

The proportions of the others are those of multi30k-en-de (width 128, 4 heads, 4 + 4 layers, inner layers of width 256),
the recipe unless another is named. A run that was stopped goes on where it was when the command is repeated.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

_RECIPES = {
    "context": ("multi30k-rnn", "multi30k-rnnsearch", "multi30k-en-de"),
    "korean": ("korean-char", "korean-word", "korean-bpe", "korean-unigram", "korean-morphemes"),
}
_ROWS: dict[str, tuple[str, ...]] = {
    "table3": (
        "",
        *(f"model.num_heads={heads}" for heads in (1, 2, 8, 16)),
        *(f"model.key_width={width}" for width in (8, 16)),
        *(f"model.encoder_layers={layers}+model.decoder_layers={layers}" for layers in (1, 2, 6)),
        *(f"model.d_model={width}" for width in (64, 256)),
        *(f"model.d_ff={width}" for width in (128, 512)),
        *(f"model.dropout={share}" for share in (0.0, 0.1, 0.5)),
        *(f"train.label_smoothing={mass}" for mass in (0.0, 0.2)),
        *(f"model.positions={kind}" for kind in ("learned", "rotary")),
    ),
    "averaging": (
        "average.checkpoints=1",
        "average.checkpoints=5",
        "average.checkpoints=10",
        "average.strategy=best+average.checkpoints=5",
        "average.strategy=best+average.checkpoints=10",
        "average.strategy=ema",
    ),
    "regularisation": (
        "",
        "model.dropout=0",
        "train.label_smoothing=0",
        "model.dropout=0+train.label_smoothing=0",
    ),
}
_OF_ALL: dict[str, tuple[str, ...]] = {
    "context": ("export.precisions=[fp32]",),  # one that all three have
    "korean": (
        "corpus={{train: [{{name: train, source: '{text}/train.en.gz', target: '{text}/train.ko.gz'}}], "
        "dev: [{{name: dev, source: '{text}/dev.en.gz', target: '{text}/dev.ko.gz'}}], "
        "test: [{{name: test, source: '{text}/test.en.gz', target: '{text}/test.ko.gz'}}]}}",
        "mix.corpora=[{{corpus: train, max_pairs: 100000}}]",
        "export.precisions=[fp32]",
    ),
    # What every average needs is kept by one and the same training
    "averaging": (
        "train.ema_decay=0.999",
        "train.keep_checkpoints=10",
        "train.keep_best=10",
        "train.validate_every=200",
        "train.checkpoint_every=200",
    ),
}


def main() -> None:
    """Run one experiment."""
    parser = argparse.ArgumentParser(description="Experiments of the literature in small, by `nmt compare`.")
    parser.add_argument("experiment", choices=[*_RECIPES, *_ROWS])
    parser.add_argument("--recipe", default="multi30k-en-de", help="that the rows are variations of (multi30k-en-de)")
    parser.add_argument("--text", type=Path, help="of korean: folder of the text")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each row (3)")
    parser.add_argument("--home", type=Path, default=Path(".nmt"), help="NMT_HOME (.nmt)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="change a value of all rows")
    arguments = parser.parse_args()
    of_all = _OF_ALL.get(arguments.experiment, ())
    if arguments.experiment == "korean":
        if arguments.text is None:
            parser.error("korean needs --text FOLDER")
        of_all = tuple(change.format(text=arguments.text.absolute()) for change in of_all)
    rows = _RECIPES.get(arguments.experiment) or [
        "+".join(filter(None, (arguments.recipe, row))) for row in _ROWS[arguments.experiment]
    ]
    overrides = [*of_all, *arguments.overrides]
    command = [sys.executable, "-c", "from flows.cli import main; main()", "compare", *rows, "--markdown"]
    command += ["--seeds", str(arguments.seeds), *(part for override in overrides for part in ("--set", override))]
    home = {"NMT_HOME": str(arguments.home.absolute())}
    sys.exit(subprocess.run(command, env=os.environ | home, check=False).returncode)


if __name__ == "__main__":
    main()
