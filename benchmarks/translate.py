"""Measure translation: tokens per second of ours, of CTranslate2 and of others, with the same weights, rules and ids.

    python3.11 -m venv /tmp/ct2
    /tmp/ct2/bin/pip install ctranslate2==4.8.5 numpy safetensors
    .venv/bin/python benchmarks/translate.py BUNDLE WEIGHTS --ctranslate2 /tmp/ct2/bin/python \
        --source test.en.gz --reference test.de.gz [--source ... --reference ...] [--eager] [--shortlist]

BUNDLE is an artifact of `export`, and WEIGHTS the `model.safetensors` of the artifact of `average` that it was made
from. The same weights are converted for the others (`translate_grow.py` makes larger ones of them). Each contender is a
process with its model loaded. All are asked in turn, `--times` times. A ratio is the median of the ratios of pairs that
ran one after the other.

The figure is tokens of the translations, without end marks, over the wall-clock time (and over the CPU time of all
threads) from token ids to token ids. Sorting by length and making batches count. Tokenisation and loading do not. All
have `--threads` CPU threads. Before that, each gets the settings that are fastest for it on the first text (or on its
first lines): of several sizes of a batch, and for CTranslate2 of several arrangements of threads and instruction sets.
`--settings FILE` keeps them.

One rule differs: CTranslate2 divides a sum of log-probabilities by length^alpha, ours by ((5 + length) / 6)^alpha.
Speed is measured with alpha 1, CTranslate2's default, with which both find the same hypotheses and may rank another one
first. Without any penalty CTranslate2 searches by another rule, until the best hypothesis ends, which finds other
hypotheses. So texts are compared with an alpha that is almost zero: if fewer than 99% of the lines in fp32 are
identical to CTranslate2's, the exit status is 1. No translation is longer than its source and 50 tokens. CTranslate2
has one limit for a batch, the limit of its longest line. Lines that any contender does not end before the limit are
left out, for all. Goals that are missed are reported. With `--enforce-bars`, the exit status is 1 then too.

With `--shortlist`, ours takes part once more, with the shortlist of the bundle, as a contender with other translations.
Without `--ctranslate2`, it is compared with no other program.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import sacrebleu
from translate_child import Ids, Question
from translate_contenders import Contender, Settings, best_settings, contenders, described
from translate_measured import Loaded, Row, missed, print_loaded, print_rows, unlike

from nmt_core.tokenizer.tokenizer import Tokenizers

_OFFSET = 50
_NO_PENALTY = 1e-6
"""Alpha with which texts are compared: too small to rank by, but not the 0 at which CTranslate2 has another rule."""
_LOADINGS = 3
_ISAS: list[dict[str, str]] = [
    {},
    {"CT2_FORCE_CPU_ISA": "AVX2"},
    {"CT2_FORCE_CPU_ISA": "AVX512"},
    {"CT2_USE_MKL": "0"},
    {"CT2_USE_MKL": "1"},
    {"CT2_USE_MKL": "1", "CT2_FORCE_CPU_ISA": "AVX512"},
]
"""Environments that choose CTranslate2's instruction sets and libraries: its default, or one that it may not choose."""
_BATCHES = [128, 256, 512, 1_024, 2_048, 4_096]
"""Source tokens: small ones hold less padding, which counts for more with a beam. With the one in the middle (the
later of two) environments are compared."""
_CT2_TYPES = {"int8": "int8", "fp32": "float32", "fp16": "float16"}


@dataclass
class Text:
    """A test set, as token ids without end marks."""

    name: str
    sources: list[Ids]
    references: list[str]

    def without(self, places: set[int]) -> "Text":
        """Return the text without some lines."""
        kept = [place for place in range(len(self.sources)) if place not in places]
        return Text(self.name, [self.sources[place] for place in kept], [self.references[place] for place in kept])


def main() -> None:
    """Measure all, and print the tables."""
    options = _options()
    tokenizers = Tokenizers.load(options.bundle)
    texts = [
        _read(Path(source), Path(reference), tokenizers, options.lines)
        for source, reference in zip(options.source, options.reference, strict=True)
    ]
    rows: list[Row] = []
    loaded: list[Loaded] = []
    with tempfile.TemporaryDirectory() as folder:
        models = converted(options, Path(folder))
        for precision in options.precisions:
            those = contenders(options, precision, models)
            for beam in options.beams:
                chosen = _settle(options, those, texts[0], precision, beam)
                for text in texts:
                    rows += _compare(options, tokenizers, those, chosen, (text, precision, beam))
                for contender in those:
                    contender.close()
            if options.device == "cpu":
                loaded += [_load(options, one, chosen[one.name], texts[0], precision) for one in those]
    print_rows(rows)
    print_loaded(loaded)
    below = missed(rows, loaded)
    for name in below:
        print(f"missed: {name}")
    if names := unlike(rows):
        sys.exit(f"the same weights, but other translations than CTranslate2's: {'; '.join(names)}")
    if below and options.enforce_bars:
        sys.exit("ours is slower or larger than it is to be")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, help="an exported model")
    parser.add_argument("weights", type=Path, help="the averaged weights that it was made from")
    parser.add_argument("--ctranslate2", help="Python interpreter that has CTranslate2")
    parser.add_argument("--source", action="append", required=True, help="text to translate, plain or .gz; repeatable")
    parser.add_argument("--reference", action="append", required=True, help="its reference; repeatable")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "int8"], help="(fp32 int8)")
    parser.add_argument("--beams", nargs="+", type=int, default=[5, 1], help="(5 1)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--times", type=int, default=7, help="runs of each, in turn (7)")
    parser.add_argument("--lines", type=int, help="number of first lines of each text (all)")
    parser.add_argument(
        "--search-lines", type=int, help="of the first text, to search for the best settings with (all)"
    )
    parser.add_argument("--length-penalty", type=float, default=1.0, help="alpha of what is timed (1)")
    parser.add_argument("--batch-tokens", nargs="+", type=int, default=_BATCHES, help="source tokens, to be tried")
    parser.add_argument(
        "--isas", nargs="+", type=json.loads, default=_ISAS, help="environments for CTranslate2 on a CPU, JSON"
    )
    parser.add_argument("--enforce-bars", action="store_true", help="end with 1 if a goal is missed")
    parser.add_argument("--settings", type=Path, help="JSON file that keeps the settings that were found best")
    parser.add_argument(
        "--transformers",
        help="Python interpreter that has transformers: Marian takes part, in fp32, or in fp16 on a GPU",
    )
    parser.add_argument("--eager", action="store_true", help="our model in PyTorch takes part as well")
    parser.add_argument("--shortlist", action="store_true", help="ours takes part with the bundle's shortlist as well")
    return parser.parse_args()


def _read(source: Path, reference: Path, tokenizers: Tokenizers, lines: int | None) -> Text:
    sides = [read_lines(source)[:lines], read_lines(reference)[:lines]]
    pairs = [pair for pair in zip(tokenizers.source.encode(sides[0]), sides[1], strict=True) if pair[0]]
    return Text(f"{source.parent.name}/{source.name}", [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def read_lines(file: Path) -> list[str]:
    """Lines of a plain or gzipped file."""
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return data.decode("utf-8").removesuffix("\n").split("\n")


def converted(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the models for `contenders`: the bundle, and the others' models, converted into a folder."""
    heads = json.loads((options.bundle / "config.json").read_text(encoding="utf-8"))["num_heads"]
    models: dict[str, Any] = {"bundle": options.bundle, "weights": options.weights, "heads": heads}
    script = Path(__file__).with_name("translate_ctranslate2.py")
    for quantisation in {_CT2_TYPES[precision] for precision in options.precisions if options.ctranslate2}:
        models[quantisation] = folder / quantisation
        command = [options.ctranslate2, script, options.weights, str(heads), models[quantisation], quantisation]
        subprocess.run(command, check=True)
    return models


def _rules(beam: int, length_penalty: float) -> Question:
    return {"beam": beam, "length_penalty": length_penalty, "offset": _OFFSET}


def _settle(
    options: argparse.Namespace, those: list[Contender], text: Text, precision: str, beam: int
) -> dict[str, Settings]:
    """The best settings of each contender, found on the first text or kept from before."""
    file = options.settings
    kept: dict[str, Settings] = json.loads(file.read_text()) if file and file.exists() else {}
    chosen: dict[str, Settings] = {}
    sources = text.sources[: options.search_lines]
    for contender in those:
        key = f"{contender.name}, {precision}, beam {beam}"
        if key not in kept:
            kept[key] = best_settings(contender, sources, _rules(beam, options.length_penalty), 2)
        chosen[contender.name] = kept[key]
        contender.keep_only([kept[key]])
    if file:
        file.write_text(json.dumps(kept, indent=1))
    return chosen


def _compare(
    options: argparse.Namespace,
    tokenizers: Tokenizers,
    those: list[Contender],
    chosen: dict[str, Settings],
    what: tuple[Text, str, int],
) -> list[Row]:
    """Ask all in turn."""
    whole, precision, beam = what
    text, identical = _check(those, chosen, whole, beam)
    rules = _rules(beam, options.length_penalty)
    answers: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in those}
    for contender in those:
        contender.child(chosen[contender.name]).ask({"sources": text.sources})
    for time in range(options.times + 1):
        for contender in those:
            settings = chosen[contender.name]
            answer = contender.child(settings).ask(rules | settings)
            if time:  # the first is to warm up
                answers[contender.name].append(answer)
    rows = []
    for name, of_one in answers.items():
        targets = of_one[0]["targets"]
        bleu = sacrebleu.corpus_bleu(tokenizers.target.decode(targets), [text.references]).score
        tokens = sum(map(len, targets))
        walls, cpus = ([answer[what] for answer in of_one] for what in ("wall", "cpu"))
        label = f"{text.name}, {len(targets):,} of {len(whole.sources):,} lines"
        row = Row(label, precision, beam, name, described(chosen[name]), tokens, walls, cpus, bleu, identical[name])
        rows.append(row)
        print(f"{label}, {precision}, beam {beam}, {name}: {tokens / median(walls):,.0f} tokens/s", file=sys.stderr)
    return rows


def _check(those: list[Contender], chosen: dict[str, Settings], text: Text, beam: int) -> tuple[Text, dict[str, float]]:
    """The text without the lines that a contender does not end, and what share each translates as ours does."""
    targets: dict[str, list[Ids]] = {}
    for contender in those:
        child = contender.child(chosen[contender.name])
        child.ask({"sources": text.sources})
        targets[contender.name] = child.ask(_rules(beam, _NO_PENALTY) | chosen[contender.name])["targets"]
    limits = [len(ids) + _OFFSET for ids in text.sources]
    places = range(len(limits))
    unended = {place for place in places if any(len(ids[place]) >= limits[place] for ids in targets.values())}
    kept = [place for place in places if place not in unended]
    ours = targets["ours"]
    identical = {name: sum(ids[place] == ours[place] for place in kept) / len(kept) for name, ids in targets.items()}
    return text.without(unended), identical


def _load(options: argparse.Namespace, contender: Contender, settings: Settings, text: Text, precision: str) -> Loaded:
    """Load a model anew, again and again, and translate a text with it."""
    answers = []
    for _ in range(_LOADINGS):
        child = contender.child(settings)
        child.ask({"sources": text.sources})
        later = child.ask(_rules(options.beams[0], options.length_penalty) | settings)
        answers.append(child.loaded | {"rss_later": later["rss"]})
        contender.close()
    return Loaded(precision, contender.name, answers)


if __name__ == "__main__":
    main()
