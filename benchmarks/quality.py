"""Measure the gain from cleaning: BLEU and chrF of one small model on raw, deduplicated, and fully cleaned text.

    .venv/bin/python benchmarks/quality.py FOLDER [--languages en-de] [--updates N] [--home NMT_HOME]

FOLDER holds noisy.XX.gz to train on, dev.XX.gz and test.XX.gz, for both languages XX. Three recipes, which differ only
in `clean`, run through the command line as far as `evaluate`, one after the other:

- raw: no filter that an option can switch off, and no deduplication. Empty and unreadable pairs are dropped anyway.
- deduplicated: the same, but one pair remains of those that are equal except for case, punctuation and spaces.
- cleaned: the defaults.

Text that a dev or test set shares is removed in all three (`clean.decontaminate`), because a model that has seen the
test set would be scored on its memory. All three have the same number of updates of the same number of tokens, so the
time that dirt takes is not measured here. Each learns its vocabulary from its own text. A run that was stopped resumes
when the command is repeated, and what is made already is not made again.
"""

import argparse
from pathlib import Path
from typing import Any

import recipe_run

_UNFILTERED: dict[str, Any] = {
    "max_words": 1_000_000,
    "max_characters": 1_000_000,
    "max_word_characters": 1_000,
    "max_length_ratio": 1e6,
    "min_letter_share": 0,
    "min_script_share": 0,
    "min_language_probability": 0,
    "drop_copies": False,
    "max_copied_share": 1,
    "placeholders_must_match": False,
    "tags_must_match": False,
    "max_repeated_characters": 0,
    "max_repeated_words": 0,
}
_CLEAN: dict[str, dict[str, Any]] = {
    "raw": _UNFILTERED | {"deduplicate": "none"},
    "deduplicated": _UNFILTERED | {"deduplicate": "normalised"},
    "cleaned": {},
}
_CHECKPOINTS = 5


def main() -> None:
    """Run the three recipes, and print the table and the funnel."""
    parser = argparse.ArgumentParser(description="BLEU of one small model on raw, deduplicated and cleaned text.")
    parser.add_argument("folder", type=Path, help="noisy.XX.gz, dev.XX.gz and test.XX.gz for both languages")
    parser.add_argument("--languages", default="en-de", help="source-target (en-de)")
    parser.add_argument("--updates", type=int, default=6_000, help="updates of each model (6,000)")
    parser.add_argument("--home", type=Path, default=Path(".nmt"), help="NMT_HOME (.nmt)")
    arguments = parser.parse_args()
    runs = {}
    for kind, clean in _CLEAN.items():
        recipe = _recipe(kind, clean, arguments.folder, arguments.languages, arguments.updates)
        runs[kind] = recipe_run.run(arguments.home, recipe, "--until", "evaluate")
    print("| Trained on | Pairs after cleaning | BLEU | chrF |\n| --- | ---: | ---: | ---: |")
    scores: dict[str, Any] = {}
    for kind, summary in runs.items():
        scores = {score["metric"]: score for score in summary["metrics"]}
        pairs = recipe_run.report(summary, "clean")["items_out"]
        print(f"| {kind} | {pairs:,} | {scores['BLEU']['score']:.2f} | {scores['chrF']['score']:.2f} |")
    print("\nSignatures: " + ", ".join(f"{name} `{score['signature']}`" for name, score in scores.items()))
    _print_funnel(recipe_run.report(runs["cleaned"], "clean"))


def _recipe(kind: str, clean: dict[str, Any], folder: Path, languages: str, updates: int) -> dict[str, Any]:
    source, target = languages.split("-")

    def corpus(name: str) -> list[dict[str, str]]:
        sides = {"source": source, "target": target}
        paths = {side: str((folder / f"{name}.{language}.gz").absolute()) for side, language in sides.items()}
        return [{"name": name, **paths}]

    return {
        "name": f"quality-{kind}",
        "description": f"A small model on {kind} text, {updates:,} updates.",
        "languages": {"source": source, "target": target},
        "corpus": {"train": corpus("noisy"), "dev": corpus("dev"), "test": corpus("test")},
        "clean": clean,
        "tokenizer": {"vocab_size": 8_000},
        "encode": {"max_length": 128},
        "model": {"d_model": 128, "d_ff": 512, "num_heads": 4, "encoder_layers": 3, "decoder_layers": 3},
        "train": {
            "max_updates": updates,
            "max_tokens": 4_096,
            "warmup_updates": max(1, updates // 4),
            "learning_rate_scale": 2.0,
            "validate_every": max(1, updates // 10),
            "checkpoint_every": max(1, updates // 20),
            "keep_checkpoints": min(_CHECKPOINTS, updates),
        },
        "average": {"checkpoints": min(_CHECKPOINTS, updates)},
    }


def _print_funnel(report: Any) -> None:
    """Print the number of pairs that each filter dropped."""
    print(f"\n| Dropped for | Pairs | Share |\n| --- | ---: | ---: |\n| (read) | {report['items_in']:,} | |")
    for reason, count in report["dropped"].items():
        print(f"| {reason} | {count:,} | {count / report['items_in']:.1%} |")
    print(f"| (kept) | {report['items_out']:,} | {report['items_out'] / report['items_in']:.1%} |")


if __name__ == "__main__":
    main()
