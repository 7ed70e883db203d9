"""Measure sampling: tokens per second of ours and of CTranslate2, with the same weights, beside greedy search of both.

    .venv/bin/python benchmarks/translate_sample.py BUNDLE WEIGHTS --ctranslate2 PYTHON --source test.en.gz

`translate.py` explains what is counted, and how both are asked in turn. Each draws other translations, so speeds are
compared and not times: tokens of the translations over the time that they took. Both have the settings that are best
for greedy search of the same lines. Neither is asked for scores.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from translate import converted, read_lines
from translate_contenders import Contender, best_settings, contenders

from nmt_core.tokenizer.tokenizer import Tokenizers

_RULES = {"beam": 1, "length_penalty": 1.0, "offset": 50}
_WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "whole vocabulary": {"sample": {"top_k": 0, "top_p": 1.0}},
    "top_p 0.9": {"sample": {"top_k": 0, "top_p": 0.9}},
    "top_k 20": {"sample": {"top_k": 20, "top_p": 1.0}},
}


def main() -> None:
    """Measure all, and print a table."""
    options = _options()
    lines = [ids for ids in Tokenizers.load(options.bundle).source.encode(read_lines(options.source)) if ids]
    sources = lines[: options.lines]
    print("| Precision | Way | Ours, tokens per second | CTranslate2 | Ratio | per CPU-second | Tokens of both |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        models = converted(options, Path(folder))
        for precision in options.precisions:
            both = contenders(options, precision, models)
            chosen = {one.name: best_settings(one, sources, _RULES, 2) for one in both}
            for one in both:
                one.keep_only([chosen[one.name]])
                one.child(chosen[one.name]).ask({"sources": sources})
            for way, sample in _WAYS.items():
                print(f"| {precision} | {way} | {_compared(both, chosen, sample, options.times)} |", flush=True)
            for one in both:
                one.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, help="an exported model")
    parser.add_argument("weights", type=Path, help="the averaged weights that it was made from")
    parser.add_argument("--ctranslate2", required=True, help="Python interpreter that has CTranslate2")
    parser.add_argument("--source", type=Path, required=True, help="text to translate, plain or .gz")
    parser.add_argument("--lines", type=int, default=200, help="number of first lines (200)")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "int8"], help="(fp32 int8)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (2)")
    parser.add_argument("--times", type=int, default=5, help="runs of each, in turn (5)")
    parser.add_argument("--batch-tokens", nargs="+", type=int, default=[512, 1_024, 2_048], help="to be tried")
    parser.add_argument("--isas", nargs="+", type=json.loads, default=[{}], help="environments for CTranslate2, JSON")
    parser.set_defaults(device="cpu", shortlist=False, eager=False, transformers=None)
    return parser.parse_args()


def _compared(both: list[Contender], chosen: dict[str, dict[str, Any]], sample: dict[str, Any], times: int) -> str:
    """The cells of a row."""
    speeds: dict[str, list[tuple[float, float]]] = {one.name: [] for one in both}
    tokens = {one.name: 0 for one in both}
    for time in range(times + 1):
        for one in both:
            settings = chosen[one.name]
            answer = one.child(settings).ask(_RULES | settings | sample)
            drawn = sum(map(len, answer["targets"]))
            if time:  # the first is to warm up
                tokens[one.name] += drawn
                speeds[one.name].append((drawn / answer["wall"], drawn / answer["cpu"]))
    ours, theirs = speeds.values()
    wall, cpu = (median(a[n] / b[n] for a, b in zip(ours, theirs, strict=True)) for n in (0, 1))
    rates = [f"{median(speed for speed, _ in of_one):,.0f}" for of_one in (ours, theirs)]
    return " | ".join([*rates, f"{wall:.2f}", f"{cpu:.2f}", ", ".join(f"{count:,}" for count in tokens.values())])


if __name__ == "__main__":
    main()
