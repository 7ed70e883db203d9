"""Real small judge: a ridge regression on features of a source and its translation, which needs no reference.

It learns to tell translations from damaged ones. As a program it reads and writes by the functions of
`infra/judges/neural.py`, which the judges for COMET and MetricX use too.
"""

import importlib.util
import json
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from nmt_core.text.chrf import f_score, sentence_counts

SCRIPT = Path(__file__).parents[2] / "infra" / "judges" / "neural.py"
DAMAGES = ("cut", "repeated", "copied", "emptied", "partly copied")


def neural() -> ModuleType:
    """Return the script as a module."""
    spec = importlib.util.spec_from_file_location("neural", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def features(source: str, translation: str) -> list[float]:
    """Return lengths, shares of copied and of repeated words, and chrF of the two sides."""
    words, own = source.split(), translation.split()
    ratio = math.log((len(translation) + 1) / (len(source) + 1))
    copied = sum(word in words for word in own) / max(len(own), 1)
    repeated = 1 - len(set(own)) / max(len(own), 1)
    likeness = f_score(sentence_counts(translation, source)) / 100
    ends = float(translation[-1:] in {".", "?", "!"}) - float(source[-1:] in {".", "?", "!"})
    return [1.0, ratio, ratio**2, copied, repeated, repeated**2, likeness, ends, float(not own)]


def damaged(source: str, translation: str, kind: str, draw: random.Random) -> str:
    """Return a translation with one kind of damage."""
    own, words = translation.split(), source.split()
    if kind == "cut":
        return " ".join(own[: len(own) // 2])
    if kind == "repeated":
        return " ".join(own + own[-2:] * 3)
    if kind == "copied":
        return source
    if kind == "emptied":
        return ""
    own[draw.randrange(len(own))] = " ".join(draw.sample(words, min(3, len(words))))
    return " ".join(own)


def learned(pairs: Sequence[tuple[str, str]], seed: int) -> list[float]:
    """Return the weights of a ridge regression: 1 for the translations as they are, 0 for damaged ones."""
    draw = random.Random(seed)
    rows, labels = [], []
    for number, (source, translation) in enumerate(pairs):
        kind = DAMAGES[number % len(DAMAGES)]
        rows += [features(source, translation), features(source, damaged(source, translation, kind, draw))]
        labels += [1.0, 0.0]
    matrix = np.array(rows)
    ridge = matrix.T @ matrix + 1e-2 * np.eye(matrix.shape[1])
    return [float(weight) for weight in np.linalg.solve(ridge, matrix.T @ np.array(labels))]


def main() -> None:
    """Judge the rows of standard input by the weights in a file."""
    script = neural()
    weights = np.array(json.loads(Path(sys.argv[1]).read_text()))
    with script.only_numbers() as output:
        print("weights are read")  # libraries print as they like
        rows = script.read_rows(sys.stdin, with_reference=False)

        def judge(rows: Sequence[dict[str, str]]) -> list[float]:
            return [float(np.array(features(row["source"], row["translation"])) @ weights) for row in rows]

        output.writelines(script.written(rows, judge))


if __name__ == "__main__":
    main()
