"""Compare one model for twelve pairs of languages with a model of each pair, on Multi30k.

    .venv/bin/python benchmarks/many_pairs.py FOLDER [--models many own] [--pairs en-de de-en ...] [--updates N]

FOLDER holds train.XX.gz, dev.XX.gz and test_2016_flickr.XX.gz of Multi30k for en, de, fr and cs. All models have layers
of the same size, and an update reads as many tokens. The model for many pairs has N updates in all, and a model of its
own has N / 12, which is its share, unless `--own-updates` gives it another number. The poorest pair, in both
directions, has 5,000 pairs of sentences only.

The scores of each model are kept in `scores.json` of the home as soon as it is trained, so the models may be trained on
different days, with `--models` and `--pairs`. The table has the rows of which both models are there. A run that was
stopped resumes when the command is repeated. By the speed of a model of this size in `more_text.py`, 16,000 updates
take some two and a half hours on two idle cores, and the twelve other models as long together. The model for many pairs
has a dropout of 0.1 in place of 0.3, because it reads more text.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import recipe_run

LANGUAGES = ("en", "de", "fr", "cs")
PAIRS = [pair for one, two in combinations(LANGUAGES, 2) for pair in (f"{one}-{two}", f"{two}-{one}")]
POOREST = ("fr-cs", "cs-fr")
_POOREST_PAIRS = 5_000
_TEST = "test_2016_flickr"
_CHECKPOINTS = 5


def recipe(folder: Path, pairs: Sequence[str], updates: int) -> dict[str, Any]:
    """Return the recipe of a model for these pairs, of which a single one needs no language token."""
    many = len(pairs) > 1
    name = "many-pairs" if many else f"own-{pairs[0]}"
    source, target = pairs[0].split("-")
    rules = [{"pair": pair, "max_pairs": _POOREST_PAIRS} for pair in POOREST]
    of_one = [{"corpus": "train", "max_pairs": _POOREST_PAIRS}] if pairs[0] in POOREST else []
    return {
        "name": name,
        "languages": {"pairs": list(pairs)} if many else {"source": source, "target": target},
        "corpus": {role: _corpora(folder, role, pairs) for role in ("train", "dev", "test")},
        "mix": {"temperature": 5, "pairs": rules} if many else {"corpora": of_one},
        "tokenizer": {"vocab_size": 16_000 if many else 8_000},
        "encode": {"max_length": 128},
        "model": {"d_model": 128, "d_ff": 256, "num_heads": 4, "encoder_layers": 4, "decoder_layers": 4}
        | {"dropout": 0.1 if many else 0.3},
        "train": {
            "max_updates": updates,
            "max_tokens": 4_096,
            "micro_batch_tokens": 4_096,
            "warmup_updates": max(1, updates // (8 if many else 4)),
            "learning_rate_scale": 2.2,
            "validate_every": max(1, updates // 10),
            "checkpoint_every": max(1, updates // 40),
            "keep_checkpoints": _CHECKPOINTS,
        },
        "average": {"checkpoints": min(_CHECKPOINTS, updates)},
        "export": {"precisions": ["fp32"]},
        "search": {"beam_size": 5, "length_penalty": 1.0},
        "registry": {"built_in_sentences": "no_worse"},
    }


def _corpora(folder: Path, role: str, pairs: Sequence[str]) -> list[dict[str, Any]]:
    file = _TEST if role == "test" else role
    corpora = []
    for one, two in combinations(LANGUAGES, 2):
        directions = [pair for pair in (f"{one}-{two}", f"{two}-{one}") if pair in pairs]
        if not directions:
            continue
        source, target = directions[0].split("-")
        sides = {"source": str(folder / f"{file}.{source}.gz"), "target": str(folder / f"{file}.{target}.gz")}
        named = {"name": f"{role}-{one}-{two}", "pairs": directions} if len(pairs) > 1 else {"name": role}
        corpora.append(named | sides)
    return corpora


def train(home: Path, made: dict[str, Any]) -> dict[str, float]:
    """Train, export and evaluate a model, unless this has been done. Return BLEU of each pair."""
    report = recipe_run.report(recipe_run.run(home, made), "evaluate")
    languages = made["languages"]
    own = "" if "pairs" in languages else f"{languages['source']}-{languages['target']}"
    bleu = [score for score in report["scores"] if score["metric"] == "BLEU"]
    return {own or score["test_set"].removeprefix("test-"): score["score"] for score in bleu}


def main() -> None:
    """Train the chosen models, and print the table of all that are there."""
    parser = argparse.ArgumentParser(description="One model for twelve pairs of languages against one of each.")
    parser.add_argument("folder", type=Path, help="train.XX.gz, dev.XX.gz and test_2016_flickr.XX.gz")
    parser.add_argument("--models", nargs="+", choices=("many", "own"), default=["many", "own"], help="both")
    parser.add_argument(
        "--pairs", nargs="+", choices=PAIRS, default=PAIRS, help="pairs with a model of their own (all)"
    )
    parser.add_argument("--updates", type=int, default=16_000, help="updates of the model for many pairs (16,000)")
    parser.add_argument("--own-updates", type=int, help="updates of each other model (a twelfth)")
    parser.add_argument("--home", type=Path, default=Path(".nmt-many-pairs"), help="NMT_HOME (.nmt-many-pairs)")
    arguments = parser.parse_args()
    arguments.home.mkdir(parents=True, exist_ok=True)
    kept = arguments.home / "scores.json"
    scores: dict[str, dict[str, float]] = json.loads(kept.read_text()) if kept.is_file() else {"many": {}, "own": {}}
    folder = arguments.folder.absolute()
    wanted = [("many", PAIRS)] if "many" in arguments.models else []
    wanted += [("own", [pair]) for pair in arguments.pairs] if "own" in arguments.models else []
    for kind, pairs in wanted:
        own_updates = arguments.own_updates or max(1, arguments.updates // len(PAIRS))
        made = recipe(folder, pairs, arguments.updates if kind == "many" else own_updates)
        scores[kind] |= train(arguments.home, made)
        kept.write_text(json.dumps(scores, indent=1), encoding="utf-8")
    print("| Pair | One model for all | Model of its own | Difference |\n| --- | ---: | ---: | ---: |")
    for pair in (pair for pair in PAIRS if pair in scores["many"] and pair in scores["own"]):
        ours, own = scores["many"][pair], scores["own"][pair]
        mark = f" (of {_POOREST_PAIRS:,} pairs)" if pair in POOREST else ""
        print(f"| {pair}{mark} | {ours:.2f} | {own:.2f} | {ours - own:+.2f} |")


if __name__ == "__main__":
    main()
