"""Compare what `nmt plan` forecasts with what a run then takes, stage by stage.

    .venv/bin/python benchmarks/forecasts.py CORPORA [--text quickstart multi30k software] [--updates N] [--home FOLDER]

CORPORA holds the folders multi30k and debian-l10n.en-de. Each text has a home of its own, which must be new. This
machine is measured in it (`nmt plan --measure`) before the run, as a newcomer would do. The models of Multi30k and of
the text about software have the sizes of the recipe multi30k-en-de, and fewer updates.

Exits with 1 if the forecast of a whole run is wrong by more than the factor 1.5. A forecast is for a machine as busy as
it was when it was made, so nothing else should run.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import recipe_run

TEXTS = {
    "multi30k": ("multi30k", "train", "dev", "test_2016_flickr"),
    "software": ("debian-l10n.en-de", "train", "dev", "test"),
}
QUICKSTART = "quickstart"
_SIDES = (("source", "en"), ("target", "de"))
MOST_WRONG = 1.5
_CHECKPOINTS = 4


def recipe(folder: Path, text: str, updates: int) -> dict[str, Any]:
    """Return the recipe of a text."""
    if text == QUICKSTART:
        return {"base": QUICKSTART, "name": text}
    place, *stems = TEXTS[text]
    names = zip(("train", "dev", "test"), stems, strict=True)
    files = {
        role: [{"name": f"{text}-{role}", **{side: str(folder / place / f"{stem}.{code}.gz") for side, code in _SIDES}}]
        for role, stem in names
    }
    return {
        "base": "multi30k-en-de",
        "name": text,
        "corpus": {"licence": "for research only", **files},
        "train": {
            "max_updates": updates,
            "warmup_updates": max(1, updates // 4),
            "validate_every": max(1, updates // _CHECKPOINTS),
            "checkpoint_every": max(1, updates // _CHECKPOINTS),
            "keep_checkpoints": _CHECKPOINTS,
        },
        "average": {"checkpoints": min(_CHECKPOINTS, updates)},
    }


def measure(home: Path, recipe: dict[str, Any]) -> None:
    """Run `nmt plan --measure`, and show what it prints."""
    command = [str(Path(sys.executable).with_name("nmt")), "plan", str(recipe_run.write(home, recipe)), "--measure"]
    subprocess.run(command, env=os.environ | {"NMT_HOME": str(home.absolute())}, check=True)


def ratio_of(text: str, summary: Any) -> float:
    """Print each stage of a run, and return the forecast of all stages divided by the time that they took."""
    took = {row["name"]: row["seconds"] for row in summary["stages"]}
    foreseen = [stage for stage in summary["forecast"] if stage["seconds"]]
    print(f"\n{text:<12}{'forecast, s':>14}{'range':>18}{'took, s':>10}{'ratio':>8}")
    for stage in foreseen:
        likely, low, high = (stage["seconds"][name] for name in ("likely", "low", "high"))
        seconds = took[stage["name"]]
        between = f"{low:,.0f} to {high:,.0f}"
        print(f"{stage['name']:<12}{likely:>14,.1f}{between:>18}{seconds:>10,.1f}{likely / seconds:>8.2f}")
    forecast = sum(stage["seconds"]["likely"] for stage in foreseen)
    truth = sum(took[stage["name"]] for stage in foreseen)
    print(f"{'all':<12}{forecast:>14,.1f}{'':>18}{truth:>10,.1f}{forecast / truth:>8.2f}")
    return forecast / truth


def main() -> int:
    """Measure, run and compare each text, and return the exit code."""
    parser = argparse.ArgumentParser(description="Forecasts of runs, and what the runs took.")
    parser.add_argument("corpora", type=Path, help="folder of multi30k and debian-l10n.en-de")
    parser.add_argument(
        "--text", nargs="+", choices=(QUICKSTART, *TEXTS), default=(QUICKSTART, *TEXTS), help="texts (all)"
    )
    parser.add_argument("--updates", type=int, default=800, help="updates of each training but the quickstart's (800)")
    parser.add_argument(
        "--home", type=Path, default=Path(".nmt-forecasts"), help="folder for the homes (.nmt-forecasts)"
    )
    arguments = parser.parse_args()
    ratios = []
    for text in arguments.text:
        home, made = arguments.home / text, recipe(arguments.corpora.absolute(), text, arguments.updates)
        if home.exists():
            sys.exit(f"{home} exists, and its runs would be the evidence: name another folder with --home")
        measure(home, made)
        ratios.append(ratio_of(text, recipe_run.run(home, made)))
    return int(any(not 1 / MOST_WRONG <= ratio <= MOST_WRONG for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main())
