"""Counts, samples and histograms of what `clean` drops."""

from itertools import product

import polars as pl
import pytest

from nmt_core.corpus.funnel import Histograms, Tally


def dropped(reason: str, lines: range, corpus: str = "news") -> pl.DataFrame:
    count = len(lines)
    return pl.DataFrame(
        {
            "corpus": [corpus] * count,
            "line": list(lines),
            "reason": [reason] * count,
            "value": ["1"] * count,
            "source": [f"{'long ' * 100}{line}" for line in lines],
            "target": ["x"] * count,
            "place": pl.Series(list(lines), dtype=pl.UInt64),
        }
    )


def tally(*tables: pl.DataFrame) -> Tally:
    found = Tally()
    for table in tables:
        found.read[table["corpus"][0]] += table.height
        found.drop(table)
    return found


def test_samples_are_ten_of_each_reason_from_anywhere_in_the_corpus() -> None:
    report = tally(dropped("copy", range(1, 1_001)), dropped("empty", range(2_000, 2_003))).report({}, [])

    copies = [sample.line for sample in report.samples if sample.reason == "copy"]
    assert len(copies) == len(set(copies)) == 10
    assert max(copies) > 500
    assert [sample.reason for sample in report.samples][:4] == ["copy", "empty", "copy", "empty"]
    assert all(len(sample.source or "") == 200 for sample in report.samples)


def test_shards_tallied_in_any_order_give_the_same_report() -> None:
    tables = [dropped(reason, range(start, start + 40)) for start, reason in product((1, 100, 500), ("copy", "empty"))]
    one, other = Tally(), Tally()
    for table in tables:
        one.add(tally(table))
    for table in reversed(tables):
        other.add(tally(table))

    assert one.report({}, []) == other.report({}, []) == tally(*tables).report({}, [])


def test_the_funnel_goes_from_what_was_read_to_what_was_kept_in_the_order_of_the_filters() -> None:
    found = tally(dropped("copy", range(1, 7)), dropped("unreadable", range(7, 8)), dropped("empty", range(8, 11)))
    found.read["news"], found.kept["news"] = 20, 10
    funnel = found.report({}, ["empty", "copy"]).funnel

    assert [(row.reason, row.pairs, row.share) for row in funnel] == [
        ("read", 20, 1.0),
        ("unreadable", 1, 0.05),
        ("empty", 3, 0.15),
        ("copy", 6, 0.3),
        ("kept", 10, 0.5),
    ]


@pytest.mark.parametrize(("length", "bin_"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (1_279, 7), (1_280, 8)])
def test_a_bin_holds_its_lower_edge_and_not_its_upper_one(length: int, bin_: int) -> None:
    counted = Histograms.of(pl.DataFrame({"source": ["é" * length], "target": ["x"]}))

    assert counted.source.tolist() == [int(number == bin_) for number in range(9)]


def test_the_ratio_is_the_target_divided_by_the_source() -> None:
    counted = Histograms.of(pl.DataFrame({"source": ["ab", "abcd", "", "ab"], "target": ["abcd", "ab", "x", None]}))

    assert counted.ratio.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 1, 0]  # 0.5 and 2.0, and nothing without both sides


def test_histograms_show_what_was_read_and_what_was_kept() -> None:
    found = Tally()
    found.before.add(
        Histograms.of(pl.DataFrame({"source": ["x" * 5] * 30 + ["x" * 25] * 10, "target": ["y" * 50] * 40}))
    )
    found.after.add(
        Histograms.of(pl.DataFrame({"source": ["x" * 5] * 15 + ["x" * 25] * 10, "target": ["y" * 50] * 25}))
    )
    rows = {(row.measure, row.range): (row.before, row.after, row.picture) for row in found.report({}, []).histograms}

    assert {key: row for key, row in rows.items() if row[:2] != (0, 0)} == {
        ("source characters", "under 10"): (30, 15, "█" * 10 + "░" * 10),
        ("source characters", "20 to 40"): (10, 10, "█" * 7),
        ("target characters", "40 to 80"): (40, 25, "█" * 12 + "░" * 8),
        ("target / source characters", "2.0 to 4.0"): (10, 10, "█" * 7),
        ("target / source characters", "4.0 and more"): (30, 15, "█" * 10 + "░" * 10),
    }
    assert [range_ for measure, range_ in rows if measure == "target characters"][-2:] == [
        "640 to 1,280",
        "1,280 and more",
    ]
    assert {row[2] for row in rows.values() if row[:2] == (0, 0)} == {""}


def test_histograms_of_shards_add_up() -> None:
    texts = pl.DataFrame({"source": ["ab", "abcd" * 9, "", "ab"], "target": ["abcd", "ab", "x", "y" * 2_000]})
    whole, parts = Histograms.of(texts), Histograms()
    for start in range(texts.height):
        parts.add(Histograms.of(texts[start : start + 1]))

    assert parts.source.tolist() == whole.source.tolist() == [3, 0, 1, 0, 0, 0, 0, 0, 0]
    assert parts.target.tolist() == whole.target.tolist() == [3, 0, 0, 0, 0, 0, 0, 0, 1]
    assert parts.ratio.tolist() == whole.ratio.tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 1, 1]


def test_rare_languages_are_counted_together() -> None:
    found = Tally()
    found.source_languages.update({f"l{number:02}": 20 - number for number in range(15)})
    shown = found.report({}, []).source_languages

    assert list(shown)[:2] == ["l00", "l01"]
    assert len(shown) == 11
    assert sum(shown.values()) == found.source_languages.total()
    assert shown["others"] == sum(range(6, 11))
