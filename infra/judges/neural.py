"""Judge translations by COMET-22, CometKiwi or MetricX-24, from checkpoints on this machine and without a network.

    python neural.py comet   --checkpoint /models/wmt22-comet-da/checkpoints/model.ckpt
    python neural.py comet   --checkpoint /models/wmt22-cometkiwi-da/checkpoints/model.ckpt --no-reference
    python neural.py metricx --checkpoint /models/metricx-24-hybrid-xl-v2p6 --tokenizer /models/mt5-xl

Reads one JSON object a line from standard input, with `source`, `translation` and, unless `--no-reference` is given,
`reference`. Writes one number a line to standard output, in the same order. Everything else goes to standard error.

It runs in an environment of its own, of comet.txt or metricx.txt beside it, and needs nothing of nmt-pipeline. It is
one file, so that its hash in a report stands for all of it.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Row = dict[str, str]
Judge = Callable[[Sequence[Row]], Sequence[float]]

_SCORE_PIECE = 250_089
"""Id of <extra_id_10> in mT5's vocabulary, whose logit is MetricX's number (Juraska et al. 2024, section 3)."""
_MOST_ERRORS = 25.0
"""Largest number of MetricX. 0 is a perfect translation."""
_MOST_PIECES = 1_536
"""Number of pieces of the longest row that MetricX-24 was trained with."""
_REQUIREMENTS = {"comet": "comet.txt", "metricx": "metricx.txt"}


class JudgeError(Exception):
    """Error that a user can correct."""


def read_rows(lines: Iterable[str], *, with_reference: bool) -> list[Row]:
    """Return the rows of JSON lines.

    Args:
        lines: one JSON object each.
        with_reference: True if each row needs a reference. Otherwise it is left out.

    Raises:
        JudgeError: a line is no such object.
    """
    fields = ("source", "translation", *(["reference"] if with_reference else []))
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            found = {name: row[name] for name in fields}
        except (ValueError, TypeError, KeyError) as error:
            hint = ": without references, give --no-reference" if isinstance(error, KeyError) and with_reference else ""
            raise JudgeError(f"line {number:,}: no JSON object with {', '.join(fields)} ({error!r}){hint}") from None
        if not all(isinstance(value, str) for value in found.values()):
            raise JudgeError(f"line {number:,}: {', '.join(fields)} must be text")
        rows.append(found)
    return rows


def written(rows: Sequence[Row], judge: Judge) -> Iterator[str]:
    """Yield a line with the number of each row. None is yielded before all are known.

    Raises:
        JudgeError: there are not as many numbers as rows, or one is not finite.
    """
    numbers = [float(number) for number in judge(rows)] if rows else []
    if len(numbers) != len(rows):
        raise JudgeError(f"the model gave {len(numbers):,} numbers for {len(rows):,} rows")
    for place, number in enumerate(numbers, 1):
        if not math.isfinite(number):
            raise JudgeError(f"line {place:,}: the model gave {number}: try another precision")
    for number in numbers:
        yield f"{number!r}\n"


@contextmanager
def only_numbers() -> Iterator[Any]:
    """Yield standard output, while everything that libraries print goes to standard error."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)
        yield output


def comet_judge(options: argparse.Namespace) -> Judge:
    """Return a judge by a checkpoint of COMET (Rei et al. 2022) or CometKiwi (Rei et al. 2022b).

    Raises:
        JudgeError: there is no such checkpoint.
    """
    import torch
    from comet import load_from_checkpoint

    _require(options.checkpoint, is_file=True)
    offline = os.environ["HF_HUB_OFFLINE"] != "0"
    model = load_from_checkpoint(str(options.checkpoint), local_files_only=offline)
    gpus = int(_device(options, torch) == "cuda")

    def judge(rows: Sequence[Row]) -> Sequence[float]:
        samples = [
            {"src": row["source"], "mt": row["translation"]} | ({"ref": row["reference"]} if "reference" in row else {})
            for row in rows
        ]
        found = model.predict(samples, batch_size=options.batch_size, gpus=gpus, progress_bar=False, num_workers=0)
        return [float(score) for score in found.scores]

    return judge


def metricx_judge(options: argparse.Namespace) -> Judge:
    """Return a judge by a checkpoint of MetricX-24 (Juraska et al. 2024). Its numbers are errors: lower is better.

    Raises:
        JudgeError: there is no such checkpoint or tokenizer.
    """
    import torch
    from transformers import AutoTokenizer, MT5ForConditionalGeneration

    for folder in (options.checkpoint, options.tokenizer):
        _require(folder, is_file=False)
    device, precision = _device(options, torch), {"fp32": torch.float32, "bf16": torch.bfloat16}[options.precision]
    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer, local_files_only=True)
    model = MT5ForConditionalGeneration.from_pretrained(options.checkpoint, local_files_only=True, dtype=precision)
    model.to(device).eval()

    def numbers(rows: Sequence[Row]) -> list[float]:
        # The end mark is left out, as in training.
        pieces = [tokenizer(prompt(row), max_length=_MOST_PIECES, truncation=True).input_ids[:-1] for row in rows]
        longest = max(map(len, pieces))
        ids = torch.tensor([own + [tokenizer.pad_token_id] * (longest - len(own)) for own in pieces], device=device)
        mask = torch.tensor([[1] * len(own) + [0] * (longest - len(own)) for own in pieces], device=device)
        begin = torch.zeros((len(rows), 1), dtype=torch.long, device=device)
        with torch.inference_mode():
            logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=begin).logits
        return [float(x) for x in logits[:, 0, _SCORE_PIECE].float().clamp(0, _MOST_ERRORS)]

    def judge(rows: Sequence[Row]) -> Sequence[float]:
        order = sorted(range(len(rows)), key=lambda place: len(prompt(rows[place])))
        found: dict[int, float] = {}
        for start in range(0, len(order), options.batch_size):
            places = order[start : start + options.batch_size]
            found |= zip(places, numbers([rows[place] for place in places]), strict=True)
        return [found[place] for place in range(len(rows))]

    return judge


def prompt(row: Row) -> str:
    """Return the text that MetricX-24 reads for a row."""
    text = f"source: {row['source']} candidate: {row['translation']}"
    return f"{text} reference: {row['reference']}" if "reference" in row else text


def _device(options: argparse.Namespace, torch: Any) -> str:
    if options.device != "auto":
        return str(options.device)
    return "cuda" if torch.cuda.is_available() else "cpu"


def _require(path: Path, *, is_file: bool) -> None:
    if not (path.is_file() if is_file else path.is_dir()):
        raise JudgeError(
            f"{path}: no such {'file' if is_file else 'folder'}: fetch the checkpoint, or correct the path"
        )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    about, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=about)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, what in (("comet", "COMET-22 or CometKiwi"), ("metricx", "MetricX-24")):
        own = kinds.add_parser(kind, help=what)
        own.add_argument("--checkpoint", type=Path, required=True, help="model.ckpt of COMET, or folder of MetricX")
        own.add_argument("--no-reference", action="store_true", help="judge without references, as CometKiwi does")
        own.add_argument("--batch-size", type=int, default=16, help="rows at a time (default: 16)")
        own.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
        if kind == "metricx":
            own.add_argument("--tokenizer", type=Path, required=True, help="folder with the tokenizer of mT5")
            own.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge the rows of standard input."""
    options = _options(arguments)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    make = {"comet": comet_judge, "metricx": metricx_judge}[options.kind]
    try:
        with only_numbers() as output:
            judge = make(options)
            rows = read_rows(sys.stdin, with_reference=not options.no_reference)
            output.writelines(written(rows, judge))
    except ModuleNotFoundError as error:
        needed = Path(__file__).resolve().with_name(_REQUIREMENTS[options.kind])
        sys.exit(
            f"{options.kind}: the package {error.name} is missing from {sys.executable}: install it there with "
            f"`{sys.executable} -m pip install -r {needed}`"
        )
    except JudgeError as error:
        sys.exit(f"{options.kind}: {error}")


if __name__ == "__main__":
    main()
