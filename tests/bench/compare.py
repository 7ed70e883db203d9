"""Experiments of the literature in small, each one call of `nmt compare`: the table of mean and spread, as Markdown.

    .venv/bin/python tests/bench/compare.py {table3,averaging,regularisation} [--recipe RECIPE] [--seeds N]
        [--home NMT_HOME] [--set SECTION.KEY=VALUE ...]

- table3: the rows of Table 3 of Vaswani et al. 2017, in the proportions of the recipe: heads, widths of keys, layers,
  widths, dropout, smoothing, learned positions; and rotary ones, which the paper does not have.
- averaging: one training for each seed, whose checkpoints are taken alone, averaged (the last, the best), or followed
  by a moving average. The stage `average` goes on with the best checkpoint alone where that has the lower dev loss, so
  that no row can be worse than "alone" on dev.
- regularisation: dropout and label smoothing, on and off.

The proportions are those of multi30k-en-de (width 128, 4 heads, 4 + 4 layers, inner layers of width 256), the recipe
unless another is named. A run that was stopped goes on where it was when the command is repeated.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

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
    # What every average needs is kept by one and the same training
    "averaging": (
        "train.ema_decay=0.999",
        "train.keep_checkpoints=10",
        "train.keep_best=10",
        "train.validate_every=200",
        "train.checkpoint_every=200",
    )
}


def main() -> None:
    """Run one experiment."""
    parser = argparse.ArgumentParser(description="Experiments of the literature in small, by `nmt compare`.")
    parser.add_argument("experiment", choices=_ROWS)
    parser.add_argument("--recipe", default="multi30k-en-de", help="that the rows are variations of (multi30k-en-de)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each row (3)")
    parser.add_argument("--home", type=Path, default=Path(".nmt"), help="NMT_HOME (.nmt)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="change a value of all rows")
    arguments = parser.parse_args()
    rows = ["+".join(filter(None, (arguments.recipe, row))) for row in _ROWS[arguments.experiment]]
    overrides = [*_OF_ALL.get(arguments.experiment, ()), *arguments.overrides]
    command = [sys.executable, "-c", "from flows.cli import main; main()", "compare", *rows, "--markdown"]
    command += ["--seeds", str(arguments.seeds), *(part for override in overrides for part in ("--set", override))]
    home = {"NMT_HOME": str(arguments.home.absolute())}
    sys.exit(subprocess.run(command, env=os.environ | home, check=False).returncode)


if __name__ == "__main__":
    main()
