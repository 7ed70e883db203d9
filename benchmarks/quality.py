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
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

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
        runs[kind] = _run(recipe, arguments.home)
    print("| Trained on | Pairs after cleaning | BLEU | chrF |\n| --- | ---: | ---: | ---: |")
    scores: dict[str, Any] = {}
    for kind, summary in runs.items():
        scores = {score["metric"]: score for score in summary["metrics"]}
        pairs = _stage(summary, "clean")["items_out"]
        print(f"| {kind} | {pairs:,} | {scores['BLEU']['score']:.2f} | {scores['chrF']['score']:.2f} |")
    print("\nSignatures: " + ", ".join(f"{name} `{score['signature']}`" for name, score in scores.items()))
    _print_funnel(_stage(runs["cleaned"], "clean"))


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


def _run(recipe: dict[str, Any], home: Path) -> Any:
    """Run a recipe, and return its summary."""
    home.mkdir(parents=True, exist_ok=True)
    file = (home / f"{recipe['name']}.yaml").absolute()
    file.write_text(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("nmt")), "run", str(file), "--until", "evaluate", "--json"]
    environment = os.environ | {"NMT_HOME": str(home.absolute())}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"{recipe['name']} ended with {done.returncode}; the same command resumes from there")
    return json.loads(done.stdout.splitlines()[-1])


def _stage(summary: dict[str, Any], name: str) -> dict[str, Any]:
    row: dict[str, Any] = next(stage for stage in summary["stages"] if stage["name"] == name)
    return row


def _print_funnel(stage: dict[str, Any]) -> None:
    """Print the number of pairs that each filter dropped."""
    report = json.loads((Path(stage["artifact"]) / "report.json").read_bytes())
    print(f"\n| Dropped for | Pairs | Share |\n| --- | ---: | ---: |\n| (read) | {report['items_in']:,} | |")
    for reason, count in report["dropped"].items():
        print(f"| {reason} | {count:,} | {count / report['items_in']:.1%} |")
    print(f"| (kept) | {report['items_out']:,} | {report['items_out'] / report['items_in']:.1%} |")


if __name__ == "__main__":
    main()
