"""Train a model that translates English into Korean, on all small corpora together, with three kinds of pieces.

    .venv/bin/python benchmarks/korean_mixed.py CORPORA [--pieces unigram bpe morphemes] [--updates N] [--home NMT_HOME]

CORPORA holds the folders debian-l10n.en-ko and tatoeba.ko-en (train, dev and test) and ko-en.small (news and a reader,
whose dev parts are training text here). All files end in .en.gz or .ko.gz. Everyday sentences and news are rare, so
they are used several times for each time that a sentence of software is.

Each model is the recipe korean-bpe, korean-unigram or korean-morphemes with larger vocabularies and more updates. Each
test set has its own row, with BLEU by the tokenizer ko-mecab and chrF. A run that was stopped resumes when the command
is repeated. With NMT_THREADS=1 and the same home, two commands can train two models at once.
"""

import argparse
from pathlib import Path
from typing import Any

import recipe_run

PIECES = ("unigram", "bpe", "morphemes")
SOFTWARE, EVERYDAY, SMALL = "debian-l10n.en-ko", "tatoeba.ko-en", "ko-en.small"
TRAIN = {
    "software": f"{SOFTWARE}/train",
    "everyday": f"{EVERYDAY}/train",
    "news": f"{SMALL}/park-news.dev",
    "reader": f"{SMALL}/jhe.dev",
}
DEV = {"software-dev": f"{SOFTWARE}/dev", "everyday-dev": f"{EVERYDAY}/dev"}
TEST = {
    "software-test": f"{SOFTWARE}/test",
    "everyday-test": f"{EVERYDAY}/test",
    "news-test": f"{SMALL}/park-news.test",
    "reader-test": f"{SMALL}/jhe.eval",
    "talks-test": f"{SMALL}/iwslt17.tst2016.en-ko",
}
_TIMES_RARE = 5
_CHECKPOINTS = 5


def recipe(folder: Path, pieces: str, updates: int) -> dict[str, Any]:
    """Return the recipe of the model with these pieces."""
    return {
        "base": f"korean-{pieces}",
        "name": f"korean-mixed-{pieces}",
        "corpus": {
            "toy": None,
            "licence": "mixed, for research only",
            **{role: _files(folder, sets) for role, sets in (("train", TRAIN), ("dev", DEV), ("test", TEST))},
        },
        "mix": {"corpora": [{"corpus": name, "weight": _TIMES_RARE} for name in TRAIN if name != "software"]},
        "tokenizer": {"vocab_size": 8_000, "target_vocab_size": 8_000},
        "train": {
            "max_updates": updates,
            "warmup_updates": max(1, updates // 8),
            "learning_rate_scale": 2.0,
            "validate_every": max(1, updates // 16),
            "checkpoint_every": max(1, updates // 80),
            "keep_checkpoints": _CHECKPOINTS,
            "dev_sentences": 0,  # the dev loss chooses the checkpoints, and BLEU in training would only take time
        },
        "average": {"checkpoints": min(_CHECKPOINTS, updates)},
        "export": {"precisions": ["fp32"]},
    }


def _files(folder: Path, sets: dict[str, str]) -> list[dict[str, str]]:
    return [
        {"name": name, "source": f"{folder / stem}.en.gz", "target": f"{folder / stem}.ko.gz"}
        for name, stem in sets.items()
    ]


def main() -> None:
    """Train the chosen models, and print their table."""
    parser = argparse.ArgumentParser(description="English to Korean, on all small corpora together.")
    parser.add_argument("corpora", type=Path, help="debian-l10n.en-ko, tatoeba.ko-en and ko-en.small")
    parser.add_argument("--pieces", nargs="+", choices=PIECES, default=PIECES, help="pieces of Korean (all)")
    parser.add_argument("--updates", type=int, default=10_000, help="updates of each model (10,000)")
    parser.add_argument("--home", type=Path, default=Path(".nmt-korean-mixed"), help="NMT_HOME (.nmt-korean-mixed)")
    arguments = parser.parse_args()
    rows = []
    for pieces in arguments.pieces:
        made = recipe(arguments.corpora.absolute(), pieces, arguments.updates)
        scores = recipe_run.report(recipe_run.run(arguments.home, made), "evaluate")["scores"]
        rows += [f"| {pieces} | {score['test_set']} | {score['metric']} | {score['score']:.2f} |" for score in scores]
    print("| Pieces | Test set | Metric | Score |\n| --- | --- | --- | ---: |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
