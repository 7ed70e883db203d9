"""Report section about the data: the corpora, the filters with samples of dropped pairs, and the splits."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.display import reports
from flows.html_report.blocks import Block, Run, Section, Sentences, Table

_SAMPLES_PER_REASON = 3
_CORPORA_SHOWN = 10


def data(run: Run) -> Section:
    """Describe the data from the download to the pairs that training read."""
    return Section("Data", [*_corpora(run), *_funnel(run), *_synthetic(run), *_augmented(run), *_parts(run)])


def _corpora(run: Run) -> list[Block]:
    report = run.report("download")
    if report is None:
        return [run.missing("download")]
    rows = [
        [
            corpus["corpus"],
            corpus["role"],
            corpus["licence"] or "not stated",
            reports.size(corpus["bytes"]),
            corpus["url"],
        ]
        for corpus in report["corpora"]
    ]
    skipped = [[corpus["corpus"], corpus["reason"]] for corpus in report["skipped_corpora"]]
    tables: list[Block] = [Table(["Corpus", "Role", "Licence", "Size", "Address"], rows, "Corpora")]
    return [*tables, Table(["Corpus", "Reason"], skipped, "Skipped corpora")] if skipped else tables


def _funnel(run: Run) -> list[Block]:
    """Return the funnel of all corpora together, the funnel of each corpus, and samples of dropped pairs."""
    report = run.report("clean")
    if report is None:
        return [run.missing("clean")]
    read = max(1, report["items_in"])
    steps: dict[str, int] = {}
    for row in report["funnel"]:
        if row["reason"] not in {"read", "kept"}:
            steps[row["reason"]] = steps.get(row["reason"], 0) + row["pairs"]
    rows, shares, left = [["read", f"{read:,}", "", "100%"]], [1.0], report["items_in"]
    for reason, pairs in steps.items():
        left -= pairs
        rows.append([_words(reason), f"{left:,}", f"-{pairs:,}", f"{left / read:.1%}"])
        shares.append(left / read)
    rows.append(["kept", f"{report['items_out']:,}", "", f"{report['items_out'] / read:.1%}"])
    shares.append(report["items_out"] / read)
    table = Table(["Filter", "Pairs left", "Dropped", "Share left"], rows, "Pairs left after each filter", shares)
    return [table, *_by_corpus(report["funnel"]), *_dropped(report["samples"])]


def _by_corpus(funnel: Sequence[dict[str, Any]]) -> list[Block]:
    corpora = list(dict.fromkeys(row["corpus"] for row in funnel))
    if len(corpora) < 2:
        return []
    rows, shares = [], []
    for name in corpora[:_CORPORA_SHOWN]:
        of_it = [row for row in funnel if row["corpus"] == name]
        dropped = sorted((row for row in of_it if row["reason"] not in {"read", "kept"}), key=lambda row: -row["pairs"])
        kept, read = of_it[-1], of_it[0]
        most = ", ".join(f"{_words(row['reason'])} {row['pairs']:,}" for row in dropped[:3])
        rows.append([name, f"{read['pairs']:,}", f"{kept['pairs']:,}", f"{kept['share']:.1%}", most])
        shares.append(kept["share"])
    return [
        Table(["Corpus", "Pairs read", "Pairs kept", "Share kept", "Most frequent reasons"], rows, "By corpus", shares)
    ]


def _dropped(samples: Sequence[dict[str, Any]]) -> list[Block]:
    by_reason: dict[str, list[dict[str, Any]]] = {}
    for sample in samples:
        by_reason.setdefault(sample["reason"], []).append(sample)
    items = []
    for reason, rows in by_reason.items():
        for row in rows[:_SAMPLES_PER_REASON]:
            value = f" ({row['value']})" if row["value"] else ""
            place = f"{_words(reason)}{value}, {row['corpus']} line {row['line']:,}"
            items.append((place, [("source", row["source"] or ""), ("target", row["target"] or "")]))
    return [Sentences("Samples of dropped pairs", items)] if items else []


def _synthetic(run: Run) -> list[Block]:
    """Return a table of the synthetic corpora, and samples of their pairs. Empty if the recipe has none."""
    report = run.report("synthesise")
    if report is None:
        return []
    rows = [
        [
            part["part"],
            ", ".join(filter(None, (_words(part["text"]), part.get("pair")))),
            ", ".join(part["teachers"]),
            f"{part['translated']:,}",
            _most_frequent(report["dropped_by_part"], part["part"]),
            f"{part['trained_on']:,}",
            part["tag"],
        ]
        for part in report["parts"]
    ]
    columns = ["Part", "Text", "Teachers", "Sentences translated", "Dropped", "Training pairs", "Tag"]
    items = [
        (sample["part"], [("source", sample["source"]), ("target", sample["target"])]) for sample in report["samples"]
    ]
    samples: list[Block] = [Sentences("Samples of synthetic pairs", items)] if items else []
    return [Table(columns, rows, "Synthetic text"), *samples]


def _augmented(run: Run) -> list[Block]:
    """Return a table of the augmented corpora, and samples of their pairs. Empty if the recipe has none."""
    report = run.report("augment")
    if report is None:
        return []
    rows = [
        [
            part["part"],
            ", ".join(map(_words, part["changes"])),
            f"{part['copied']:,}",
            _most_frequent(report["dropped_by_part"], part["part"]),
            f"{part['trained_on']:,}",
            part["tag"],
        ]
        for part in report["parts"]
    ]
    columns = ["Part", "Changes", "Pairs copied", "Dropped", "Training pairs", "Tag"]
    items = [
        (one["part"], [("before", one["before"]), ("source", one["source"]), ("target", one["target"])])
        for one in report["samples"]
    ]
    samples: list[Block] = [Sentences("Samples of changed pairs", items)] if items else []
    return [Table(columns, rows, "Augmented text"), *samples]


def _most_frequent(dropped: Mapping[str, int], part: str) -> str:
    """Return the most frequent reasons for which pairs of a part were dropped, with their numbers."""
    own = {name.removeprefix(f"{part}: "): count for name, count in dropped.items() if name.startswith(f"{part}: ")}
    most = sorted(own.items(), key=lambda one: -one[1])[:3]
    return ", ".join(f"{_words(reason)} {count:,}" for reason, count in most)


def _parts(run: Run) -> list[Block]:
    """Return a table of the splits and their sizes in pairs and tokens."""
    rows: list[list[str]] = []
    if split := run.report("split"):
        rows += [["Training pairs, with repetitions", f"{split['items_out']:,}"], ["Dev pairs", f"{split['dev']:,}"]]
        rows += [[f"Pairs of test set {name}", f"{pairs:,}"] for name, pairs in split["tests"].items()]
        rows += [[f"Dropped: {_words(reason)}", f"{pairs:,}"] for reason, pairs in split["dropped"].items()]
    if synthetic := run.report("synthesise"):
        pairs = synthetic["items_out"] - synthetic["parallel"]
        rows += [["Synthetic training pairs, with repetitions", f"{pairs:,}"]]
        rows += [["Training pairs in all, with repetitions", f"{synthetic['items_out']:,}"]]
    if augmented := run.report("augment"):
        pairs = augmented["items_out"] - augmented["unchanged"]
        rows += [["Augmented training pairs, with repetitions", f"{pairs:,}"]]
        rows += [["Training pairs with augmented ones", f"{augmented['items_out']:,}"]]
    if encode := run.report("encode"):
        rows += [
            ["Vocabulary", f"{encode['vocab_size']:,} pieces"],
            ["Source tokens", f"{encode['source_tokens']:,}"],
            ["Target tokens", f"{encode['target_tokens']:,}"],
        ]
        rows += [[f"Dropped: {_words(reason)}", f"{pairs:,}"] for reason, pairs in encode["dropped"].items()]
    if not rows:
        return [run.missing("split")]
    return [Table(["Part", "Count"], rows, "Training data and held-out data")]


def _words(reason: str) -> str:
    return reason.replace("_", " ")
