"""A test set is known by its text, and translations are read back line for line."""

from pathlib import Path

import polars

from nmt_core.evaluate.test_sets import TestSet, hypotheses_file, read_hypotheses, read_test_sets


def test_the_hash_is_of_the_text_and_of_nothing_else(tmp_path: Path) -> None:
    pairs = polars.DataFrame({"source": ["a", "b"], "target": ["1", "2"]})
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        pairs.write_parquet(folder / f"{name}.parquet")
        (folder / "splits.json").write_text(f'{{"dev": "dev.parquet", "tests": {{"{name}": "{name}.parquet"}}}}')
    (one,), (two,) = (read_test_sets(tmp_path / name) for name in ("one", "two"))
    assert (one.name, two.name, one.sources, one.references) == ("one", "two", ["a", "b"], ["1", "2"])
    assert one.sha256 == two.sha256
    others = [TestSet("one", ["a", "b"], ["1", "3"]), TestSet("one", ["ab"], ["1", "2"]), TestSet("one", ["a"], ["1"])]
    assert len({one.sha256, *(other.sha256 for other in others)}) == 4


def test_translations_are_lines_whatever_they_hold(tmp_path: Path) -> None:
    texts = ["", "a\rb", "c\u2028d", " e "]
    hypotheses_file(tmp_path, "news").write_bytes("".join(f"{text}\n" for text in texts).encode())
    assert read_hypotheses(tmp_path, "news") == texts
