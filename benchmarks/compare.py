"""Repeat experiments of the literature in small, each with one command: means and spreads as Markdown tables.

    .venv/bin/python benchmarks/compare.py {context,figure2,table3,korean,averaging,regularisation}
        [--updates N] [--seeds N] [--recipe RECIPE] [--rows A C D E] [--text FOLDER] [--pieces N]
        [--home NMT_HOME] [--figure FILE.svg] [--set SECTION.KEY=VALUE ...]

- context: how much of the source a decoder sees. One vector for all of it (Cho et al. 2014), the weights of an
  alignment model for each step (Bahdanau et al. 2015), and the attention of a Transformer. All train on the same text,
  with about as many parameters and for as many updates. The second table and a figure show BLEU by source length.
- figure2: figure 2 of Bahdanau et al. (2015). RNNencdec and RNNsearch, each trained on text of up to 30 and of up to 50
  words, and BLEU on test sentences of up to 60 words, in groups of ten. FOLDER holds Multi30k as `train`, `dev` and
  `test`, each as `.en.gz` and `.de.gz`. Its captions are too short, so one to five that follow each other are joined.
- table3: rows of Table 3 of Vaswani et al. (2017), in the proportions of the recipe, by the paper's families (`--rows`,
  by default A C D E): heads, widths of keys, layers and widths, dropout and smoothing, learned positions. F is rotary
  positions, which the paper does not have. Checkpoints are single, as in the paper. The second table shows the
  direction of each change, in the paper and here.
- korean: pieces of Korean, from characters to morphemes, by the recipes korean-*. FOLDER holds `train`, `dev` and
  `test`, each as `.en.gz` and `.ko.gz`. At most 100,000 pairs of the training text are used. English and Korean have
  8,000 pieces each. With little text, set `--pieces`: 1,200 fit 2,600 short sentences. Words are the 30,000 most
  frequent at most, and characters are all that occur.
- averaging: one training for each seed, whose checkpoints are used alone, averaged (the last, the best), or followed by
  a moving average. The stage `average` uses the best checkpoint alone if that has the lower dev loss, so no row can be
  worse than that on the dev set. The second table has the dev perplexity of both.
- regularisation: dropout and label smoothing, on and off.

The recipe is multi30k-en-de (width 128, 4 heads, 4 + 4 layers, inner width 256) unless another is named. Training
differs from the recipe, because it is short. Dropout is the paper's 0.1: the recipe's 0.3 suits trainings that see the
text often. Batches have 1,024 tokens, which gives more updates. The learning rate rises twice as long, to half the
height. With this, 800 updates (two minutes of one core) reach a BLEU of 15, and with the recipe's own learning rate 3.
`--updates` shortens or lengthens all trainings, and the learning rate with them. The last five of twenty checkpoints
are averaged. A run that was stopped resumes when the command is repeated.

Models of this size train hardly faster on two threads than on one. On two cores it is best to run two commands at a
time, with NMT_THREADS=1 and the same `--home`: neither makes again what the other has made. Without options, context
takes 24 minutes of one core, averaging 35, regularisation 23, korean 32 (8 with tatoeba, `--pieces 1200 --updates 600`)
and table3 150, beside other work. A larger machine can have more `--updates` and `--seeds`.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compare_joined import corpus_of, write_joined
from compare_tables import BASE, TABLE_3, averages, beside_the_paper

from flows.comparison.table import ComparedRecipe, markdown
from nmt_core.recipes.recipe import load_recipe

MORE_THAN_ANY = 20_000  # characters: Hangul alone has 11,172 syllables
_FEWEST_UPDATES = 10
_SIDES = {"source": "en", "target": "ko"}
_BATCHES = ("train.max_tokens=1024", "train.micro_batch_tokens=1024")
_REGULARISED = ("model.dropout=0.1", "train.label_smoothing=0.1")
"""Options of Vaswani et al. (2017, section 5.4)."""
_SMALL_EXPORT = ("export.precisions=[fp32]", "export.parity_sentences=100", "evaluate.interval_samples=0")
_AVERAGES = (
    "average.checkpoints=1",
    "average.checkpoints=5",
    "average.checkpoints=10",
    "average.strategy=best+average.checkpoints=5",
    "average.strategy=best+average.checkpoints=10",
    "average.strategy=ema",
)
_REGULARISATIONS = ("", "model.dropout=0", "train.label_smoothing=0", "model.dropout=0+train.label_smoothing=0")


@dataclass(frozen=True)
class Experiment:
    """Experiment: the recipes for `nmt compare`, and the facts that are needed to read its table."""

    rows: Sequence[str]
    of_all: Sequence[str]
    """Changes of all rows."""
    said: str
    seeds: int = 1
    """Trainings of each row, unless the command line says otherwise."""
    further: Callable[[Sequence[ComparedRecipe]], list[str]] = field(default=lambda table: [])
    """Lines of a table of its own."""
    prepare: Callable[[], None] = field(default=lambda: None)
    """Writes what the recipes read."""


def context(arguments: argparse.Namespace) -> Experiment:
    """Fixed context against attention against self-attention."""
    updates = arguments.updates or 2_500
    changes = schedule("multi30k-en-de", updates)
    rnn = load_recipe("multi30k-rnn").train
    caption = (
        f"The recurrent models learn with Adam at a constant rate of {rnn.learning_rate_scale:g}, and gradients of a "
        f"norm of at most {rnn.max_gradient_norm:g}: Adadelta and gradient descent, as in their papers, take hundreds "
        "of thousands of updates. The Transformer's rate rises and falls by the published formula, in proportion to "
        "its updates."
    )
    rows = ["multi30k-rnn", "multi30k-rnnsearch", "+".join(["multi30k-en-de", *changes])]
    return Experiment(rows, [*length(updates), *averaged(5), *_REGULARISED, *_SMALL_EXPORT], caption)


def figure2(arguments: argparse.Namespace) -> Experiment:
    """Fixed context against attention, by the longest sentence in training and in the test."""
    updates = arguments.updates or 20_000
    joined = arguments.home.absolute() / "joined"
    of_all = [
        f"corpus={json.dumps(corpus_of(joined))}",  # JSON is YAML
        *length(updates),
        *averaged(5),
        *_REGULARISED,
        *_SMALL_EXPORT,
        "encode.max_length=200",
        "evaluate.length_bucket=10",
        "search.split_sentences=never",
        "export.parity_tolerance=1e-3",  # 90 recurrent steps in float32: up to 6e-4 from float64, and PyTorch 2e-4
    ]
    rows = [
        f"{recipe}+clean.max_words={words}" for recipe in ("multi30k-rnn", "multi30k-rnnsearch") for words in (30, 50)
    ]
    caption = (
        "As in the paper, the model with one vector of fixed length is RNNencdec and the one with attention RNNsearch. "
        "Each row says how many words a training sentence has at most."
    )
    return Experiment(rows, of_all, caption, prepare=lambda: write_joined(arguments.text, joined))


def table3(arguments: argparse.Namespace) -> Experiment:
    """Variations of the Transformer."""
    updates, recipe = arguments.updates or 700, arguments.recipe
    chosen = [BASE, *(variation for variation in TABLE_3 if variation.family in arguments.rows)]
    variations = {of_recipe(load_recipe(recipe).name, variation.change): variation for variation in chosen}
    caption = (
        "Single checkpoints. The paper's numbers are of newstest2013 and of 100,000 updates of 25,000 tokens; those "
        "below base are differences from it, ours seed by seed. One is even if it is no larger than its spread over "
        "the seeds."
    )
    of_all = [*length(updates), *averaged(1), *_REGULARISED, *schedule(recipe, updates), *_SMALL_EXPORT]
    rows = [of_recipe(recipe, variation.change) for variation in chosen]
    return Experiment(rows, of_all, caption, 3, lambda table: beside_the_paper(table, variations))


def korean(arguments: argparse.Namespace) -> Experiment:
    """Pieces of Korean."""
    updates, pieces = arguments.updates or 2_000, arguments.pieces
    sizes = {"char": MORE_THAN_ANY, "word": 30_000, "bpe": pieces, "unigram": pieces, "morphemes": pieces}
    folder = arguments.text.absolute()
    text = {
        part: [{"name": part} | {side: str(folder / f"{part}.{language}.gz") for side, language in _SIDES.items()}]
        for part in ("train", "dev", "test")
    }
    of_all = [
        f"corpus={json.dumps(text)}",  # JSON is YAML
        "mix.corpora=[{corpus: train, max_pairs: 100000}]",
        f"tokenizer.vocab_size={pieces}",
        *length(updates),
        *averaged(5),
        *schedule("korean-bpe", updates),
        *_SMALL_EXPORT,
    ]
    rows = [f"korean-{kind}+tokenizer.target_vocab_size={size}" for kind, size in sizes.items()]
    return Experiment(
        rows, of_all, "An update has as many tokens in all rows, so that rows of finer pieces see less of the text."
    )


def averaging(arguments: argparse.Namespace) -> Experiment:
    """Single checkpoints, averages of the last and of the best, and a moving average."""
    updates, recipe = arguments.updates or 2_000, arguments.recipe
    often = max(1, updates // 40)
    of_all = [
        *length(updates),
        *_REGULARISED,
        # What every average needs is kept by one and the same training
        f"train.ema_decay={max(0.5, 1 - 10 / updates):.4g}",
        "train.keep_checkpoints=10",
        "train.keep_best=10",
        f"train.validate_every={often}",
        f"train.checkpoint_every={often}",
        *schedule(recipe, updates),
        *_SMALL_EXPORT,
    ]
    caption = (
        f"A checkpoint every {often:,} updates; the moving average is over about a tenth of the training. Negative "
        "differences: the average predicts the dev set better than any checkpoint that was kept."
    )
    return Experiment([of_recipe(recipe, row) for row in _AVERAGES], of_all, caption, 3, averages)


def regularisation(arguments: argparse.Namespace) -> Experiment:
    """Dropout and label smoothing, on and off."""
    updates, recipe = arguments.updates or 2_000, arguments.recipe
    of_all = [*length(updates), *averaged(5), *_REGULARISED, *schedule(recipe, updates), *_SMALL_EXPORT]
    caption = "Dev perplexity is of the plain loss: it counts against label smoothing, which BLEU need not follow."
    return Experiment([of_recipe(recipe, row) for row in _REGULARISATIONS], of_all, caption)


EXPERIMENTS = {each.__name__: each for each in (context, figure2, table3, korean, averaging, regularisation)}


def of_recipe(recipe: str, change: str) -> str:
    """Return a row in the form that `nmt compare` takes."""
    return f"{recipe}+{change}" if change else recipe


def schedule(recipe: str, updates: int) -> list[str]:
    """Return changes by which the learning rate rises for twice its share of the updates, to half the height."""
    train = load_recipe(recipe).train
    if train.learning_rate_schedule == "constant":
        return []
    warmup = max(1, round(2 * updates * train.warmup_updates / train.max_updates))
    scale = train.learning_rate_scale * math.sqrt(warmup / train.warmup_updates) / 2
    return [f"train.warmup_updates={warmup}", f"train.learning_rate_scale={scale:.4g}"]


def length(updates: int) -> list[str]:
    """Changes by which a training is so long, with twenty checkpoints."""
    return [
        *_BATCHES,
        f"train.max_updates={updates}",
        f"train.validate_every={max(1, updates // 5)}",
        f"train.checkpoint_every={max(1, updates // 20)}",
        "train.dev_sentences=0",  # the export translates the dev set anyway
    ]


def averaged(checkpoints: int) -> list[str]:
    """Return the changes by which this many last checkpoints are averaged."""
    return [f"train.keep_checkpoints={checkpoints}", f"average.checkpoints={checkpoints}"]


def main() -> None:
    """Run one experiment, and print its tables."""
    arguments = _arguments()
    experiment = EXPERIMENTS[arguments.experiment](arguments)
    experiment.prepare()
    command = [sys.executable, "-c", "from flows.cli.app import main; main()", "compare", *experiment.rows, "--json"]
    command += ["--seeds", str(arguments.seeds or experiment.seeds)]
    command += [part for change in (*experiment.of_all, *arguments.overrides) for part in ("--set", change)]
    drawn = arguments.home / f"{arguments.experiment}.svg"
    figure = arguments.figure or (drawn if arguments.experiment in ("context", "figure2") else None)
    command += ["--figure", str(figure)] if figure else []
    print(f"{len(experiment.rows) * (arguments.seeds or experiment.seeds)} runs", file=sys.stderr, flush=True)
    home = {"NMT_HOME": str(arguments.home.absolute())}
    with subprocess.Popen(command, env=os.environ | home, stdout=subprocess.PIPE) as running:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what runs has it as well, and ends with what it has so far
        printed, _ = running.communicate()
    if printed.strip():
        table = [ComparedRecipe.model_validate(row) for row in json.loads(printed.splitlines()[-1])]
        parts = [markdown(table), "\n".join(experiment.further(table)), experiment.said]
        print("\n\n".join(filter(None, parts)))
    sys.exit(running.returncode)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Experiments of the literature in small, by `nmt compare`.")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument(
        "--updates", type=int, help="of each training (2,500 of context, 20,000 of figure2, 700 of table3, else 2,000)"
    )
    parser.add_argument("--seeds", type=int, help="trainings of each row (3 of table3 and averaging, 1 of the others)")
    parser.add_argument(
        "--recipe", default="multi30k-en-de", help="of table3, averaging, regularisation (multi30k-en-de)"
    )
    parser.add_argument("--rows", nargs="+", choices="ABCDEF", default=[*"ACDE"], help="of table3: families (A C D E)")
    parser.add_argument("--text", type=Path, help="of korean and figure2: folder of the text")
    parser.add_argument("--pieces", type=int, default=8_000, help="of korean: pieces of a vocabulary (8,000)")
    parser.add_argument("--home", type=Path, default=Path(".nmt"), help="NMT_HOME (.nmt)")
    parser.add_argument(
        "--figure", type=Path, help="BLEU by the length of the source (of context and figure2: a file there)"
    )
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="change a value of all rows")
    arguments = parser.parse_args()
    if arguments.experiment in ("korean", "figure2") and arguments.text is None:
        parser.error(f"{arguments.experiment} needs --text FOLDER")
    if arguments.updates is not None and arguments.updates < _FEWEST_UPDATES:
        parser.error(
            f"--updates {arguments.updates}: must be {_FEWEST_UPDATES} or more, to have checkpoints to average"
        )
    return arguments


if __name__ == "__main__":
    main()
