"""Measure what text from models brings on Multi30k: back-translation, rounds of it, and distillation.

    .venv/bin/python benchmarks/more_text.py FOLDER [--parts back rounds students] [--seeds 1 2 3] [--updates N]

FOLDER holds train.XX.gz, dev.XX.gz and test_2016_flickr.XX.gz of Multi30k for en and de. The first 10,000 pairs are
the parallel text. The English side of the rest is one monolingual text, and the German side another, in another order.
All models translate English into German, are of the same size and have the same number of updates of the same number
of tokens.

- back: trained on the parallel text alone, and with the German text translated by a backward model, which is trained
  on the parallel text. The translations are sampled or found by a beam, and their sources are tagged or not.
- rounds: the same with two rounds, sampled and tagged.
- students: a small student trained on the parallel text, and on translations by the teacher. The teacher is the model
  that was trained with sampled and tagged back-translations, so the part `back` runs first.

Each row is compared with the row that its column names: the difference of BLEU, and p of paired bootstrap resampling. A
run that was stopped resumes when the command is repeated, and what is made already is not made again. With 4,000
updates, a model takes about 35 minutes on two idle cores.
"""

import argparse
import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recipe_run

from nmt_core.evaluate.sentences import read_sentences
from nmt_core.evaluate.significance import compare
from nmt_core.scoring import statistics

_TEST = "test_2016_flickr"
_PARALLEL_PAIRS = 10_000
_SAMPLES = 1_000
_SEARCHES = {"beam": {"beam_size": 5}, "sampled": {"method": "sample"}}
_STUDENT = {"encoder_layers": 6, "decoder_layers": 1, "d_model": 128, "d_ff": 256, "decoder_autoregression": "ssru"}
_CHECKPOINTS = 5


class Experiment:
    """Models of one seed, each trained once.

    Args:
        text: folder of the text, as `_write_text` left it.
        home: NMT_HOME.
        seed: seed of the weights and of the order of the data.
        updates: number of updates of each model.
    """

    def __init__(self, text: Path, home: Path, seed: int, updates: int) -> None:
        self._text = text
        self._home = home
        self._seed = seed
        self._updates = updates
        self.summaries: dict[str, Any] = {}

    def train(self, name: str, direction: str = "en-de", **sections: Any) -> None:
        """Train, export and evaluate a model, unless this has been done."""
        self.summaries[name] = recipe_run.run(self._home, self._recipe(name, direction, sections))

    def teacher(self, name: str) -> str:
        """Return the address of a trained model."""
        return f"export/{recipe_run.artifact(self.summaries[name], 'export').name}"

    def back(self, teacher: str, search: str) -> dict[str, Any]:
        """Return the sections that add the German text with translations by a teacher."""
        part = {"name": "made", "text": "target_monolingual", "teachers": teacher, "search": _SEARCHES[search]}
        return {"synthesis": {"parts": [part]}}

    def with_rounds(self) -> None:
        """Train two rounds of both directions. Their models are in the summary of the last one."""
        tagged = {"mix": {"corpora": [{"corpus": "made", "tag": "<BT>"}]}}
        sections = self.back("reverse", "sampled") | tagged
        backward = recipe_run.write(self._home, self._recipe("backward-of-rounds", "de-en", sections))
        rounds = {"count": 2, "other_direction": str(backward)}
        self.train("two rounds", **self.back("reverse", "sampled"), **tagged, rounds=rounds)

    def _recipe(self, name: str, direction: str, sections: dict[str, Any]) -> dict[str, Any]:
        source, target = direction.split("-")
        named = f"more-text-{name.replace(' ', '-').replace(',', '')}-{self._seed}"

        def corpus(role: str) -> list[dict[str, str]]:
            sides = {"source": source, "target": target}
            return [{"name": role, **{side: str(self._text / f"{role}.{code}.gz") for side, code in sides.items()}}]

        return {
            "name": named,
            "languages": {"source": source, "target": target},
            "corpus": {
                "train": corpus("parallel"),
                "dev": corpus("dev"),
                "test": corpus(_TEST),
                "monolingual": [
                    {"name": "alone", "side": "target", "address": str(self._text / f"alone.{target}.gz")},
                ],
            },
            "tokenizer": {"vocab_size": 6_000},
            "encode": {"max_length": 128},
            "model": {"d_model": 128, "d_ff": 256, "num_heads": 4, "encoder_layers": 4, "decoder_layers": 4}
            | {"dropout": 0.3}
            | sections.pop("model", {}),
            "train": {
                "seed": self._seed,
                "max_updates": self._updates,
                "max_tokens": 4_096,
                "micro_batch_tokens": 4_096,
                "warmup_updates": max(1, self._updates // 4),
                "learning_rate_scale": 2.2,
                "validate_every": max(1, self._updates // 10),
                "checkpoint_every": max(1, self._updates // 40),
                "keep_checkpoints": _CHECKPOINTS,
            },
            "average": {"checkpoints": min(_CHECKPOINTS, self._updates)},
            "search": {"beam_size": 5, "length_penalty": 1.0},
            "registry": {"built_in_sentences": "no_worse"},
            **sections,
        }


def main() -> None:
    """Train the models of the chosen parts, and print a table for each seed."""
    parser = argparse.ArgumentParser(description="BLEU with text that models make, on Multi30k.")
    parser.add_argument("folder", type=Path, help="train.XX.gz, dev.XX.gz and test_2016_flickr.XX.gz for en and de")
    parser.add_argument("--parts", nargs="+", choices=("back", "rounds", "students"), default=["back"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], help="seeds (1)")
    parser.add_argument("--updates", type=int, default=4_000, help="updates of each model (4,000)")
    parser.add_argument("--home", type=Path, default=Path(".nmt-more-text"), help="NMT_HOME (.nmt-more-text)")
    arguments = parser.parse_args()
    arguments.home.mkdir(parents=True, exist_ok=True)
    text = (arguments.home / "text").absolute()
    _write_text(arguments.folder, text)
    for seed in arguments.seeds:
        experiment = Experiment(text, arguments.home, seed, arguments.updates)
        rows = [row for part in arguments.parts for row in _PARTS[part](experiment)]
        print(f"\nSeed {seed}\n\n| Trained on | BLEU | chrF | Against | BLEU difference | p |")
        print("| --- | ---: | ---: | --- | ---: | ---: |")
        for name, other in rows:
            print(_row(experiment, name, other), flush=True)


def _back(experiment: Experiment) -> list[tuple[str, str]]:
    experiment.train("backward", "de-en")
    experiment.train("parallel text alone")
    rows = [("parallel text alone", "")]
    for search in _SEARCHES:
        for tag in ("", "<BT>"):
            name = f"with back-translations, {search}, {'tagged' if tag else 'untagged'}"
            mix = {"mix": {"corpora": [{"corpus": "made", "tag": tag}]}}
            experiment.train(name, **experiment.back(experiment.teacher("backward"), search), **mix)
            rows.append((name, "parallel text alone"))
    return rows


def _rounds(experiment: Experiment) -> list[tuple[str, str]]:
    _back(experiment)
    experiment.with_rounds()
    return [("two rounds", "with back-translations, sampled, tagged")]


def _students(experiment: Experiment) -> list[tuple[str, str]]:
    _back(experiment)
    teacher = "with back-translations, sampled, tagged"
    experiment.train("student on the original text", model=_STUDENT)
    part = {"name": "distilled", "text": "parallel_source", "teachers": experiment.teacher(teacher)}
    part |= {"search": {"beam_size": 8, "n_best": 8}, "choose": "chrf"}
    learning = {"parts": [part], "train_on_parallel": False}
    experiment.train("student on distilled text", model=_STUDENT, synthesis=learning)
    return [
        ("student on the original text", teacher),
        ("student on distilled text", "student on the original text"),
        ("student on distilled text", teacher),
    ]


_PARTS = {"back": _back, "rounds": _rounds, "students": _students}


def _row(experiment: Experiment, name: str, other: str) -> str:
    scores = {score["metric"]: score["score"] for score in experiment.summaries[name]["metrics"]}
    cells = [name, f"{scores['BLEU']:.2f}", f"{scores['chrF']:.2f}", other, "", ""]
    if other:
        ours, theirs = (
            statistics(_TEST, *_translations(experiment.summaries[each]), "de")[0] for each in (name, other)
        )
        found = compare(theirs, ours, _SAMPLES)
        cells[4:] = [f"{found.difference:+.2f}", f"{found.p_value:.3f}"]
    return f"| {' | '.join(cells)} |"


def _translations(summary: dict[str, Any]) -> tuple[Sequence[str], Sequence[str]]:
    rows = read_sentences(recipe_run.artifact(summary, "evaluate"), _TEST)
    assert rows is not None, "this version writes them"
    return rows["hypothesis"].to_list(), rows["reference"].to_list()


def _write_text(folder: Path, text: Path) -> None:
    """Write the parallel text and the two monolingual texts. The order of the monolingual lines differs by side."""
    text.mkdir(parents=True, exist_ok=True)
    for side, code in enumerate(("en", "de")):
        with gzip.open(folder / f"train.{code}.gz", "rt", encoding="utf-8") as file:
            lines = file.readlines()
        alone = lines[_PARALLEL_PAIRS:]
        random.Random(side).shuffle(alone)
        for name, part in (("parallel", lines[:_PARALLEL_PAIRS]), ("alone", alone)):
            target = text / f"{name}.{code}.gz"
            if not target.is_file():
                target.write_bytes(gzip.compress("".join(part).encode(), mtime=0))
        for name in ("dev", _TEST):
            target = text / f"{name}.{code}.gz"
            if not target.is_file():
                target.write_bytes((folder / f"{name}.{code}.gz").read_bytes())


if __name__ == "__main__":
    main()
