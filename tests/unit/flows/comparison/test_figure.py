"""The figure of a comparison: its curves, their labels, and the cases without a figure."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from flows.comparison.contenders import ComparedRun
from flows.comparison.figure import check_figure, length_figure, write_figure
from flows.comparison.table import ComparedRecipe, rows
from nmt_core.errors import ConfigError, DataError
from nmt_core.evaluate.length_bucket import LengthBucket

SVG = "{http://www.w3.org/2000/svg}"
LONG = "multi30k-en-de+train.warmup_updates=429+train.learning_rate_scale=1.177"


def a_run(recipe: str, seed: int, scores: tuple[float, ...], test_set: str = "news") -> ComparedRun:
    buckets = [
        LengthBucket(
            test_set=test_set, shortest=n, longest=n + 4, mean=n + 2, unit="words", sentences=9, bleu=scores[n // 5]
        )
        for n in range(0, 5 * len(scores), 5)
    ]
    return ComparedRun(recipe=recipe, seed=seed, run_id="run", status="finished", by_length=buckets)


def a_table() -> list[ComparedRecipe]:
    runs = [a_run("fixed", 1, (30, 20, 10)), a_run("fixed", 2, (32, 22, 12)), a_run(LONG, 1, (31, 31, 31))]
    return rows(
        [
            *runs,
            a_run("elsewhere", 1, (1, 2, 3), "web"),
            ComparedRun(recipe="failed", seed=1, run_id="run", status="failed"),
        ]
    )


def drawn(table: list[ComparedRecipe], tmp_path: Path) -> ElementTree.Element:
    assert write_figure(length_figure(table), tmp_path / "figure.svg")
    return ElementTree.parse(tmp_path / "figure.svg").getroot()


def test_each_recipe_has_a_curve_and_a_line_that_names_it(tmp_path: Path) -> None:
    root = drawn(a_table(), tmp_path)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[-2:] == ["fixed", LONG], "of whom there is no curve there is no line"
    assert {"BLEU, news", "mean source length, words"} <= set(texts)
    assert texts.count("fixed") == texts.count(LONG) == 1, "each curve is named once"
    assert len([dot for dot in root.iter(f"{SVG}circle") if dot.get("class") == "dot s1"]) == 3
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    key = next(text for text in root.iter(f"{SVG}text") if text.text == LONG)
    assert float(key.get("x", 0)) + 5 * len(LONG) < width
    assert float(key.get("y", 0)) < height


def test_a_point_is_the_mean_of_the_seeds(tmp_path: Path) -> None:
    """Both curves would pass through one point if their means were equal there: 31 of the first bucket."""
    root = drawn(a_table(), tmp_path)
    first, second = (
        [(dot.get("cx"), dot.get("cy")) for dot in root.iter(f"{SVG}circle") if dot.get("class") == f"dot s{number}"]
        for number in (0, 1)
    )
    assert first[0] == second[0]
    assert float(first[1][1] or 0) > float(second[1][1] or 0), "lower, which is further down"


def test_without_scores_there_is_no_figure(tmp_path: Path) -> None:
    failed = rows([ComparedRun(recipe="failed", seed=1, run_id="run", status="failed")])
    assert length_figure(failed) is None
    assert not write_figure(length_figure(failed), tmp_path / "figure.svg")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_drawn_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for file, recipes, message in (
        (tmp_path / "figure.png", 2, "give a name that ends in .svg"),
        (tmp_path / "figure.svg", 7, "7 recipes, but only 6 colours can be told apart"),
        (tmp_path / "file" / "figure.svg", 2, "its folder cannot be created"),
    ):
        with pytest.raises(ConfigError) as caught:
            check_figure(file, recipes)
        assert message in str(caught.value)
    check_figure(tmp_path / "new" / "figure.svg", 6)
    assert (tmp_path / "new").is_dir()
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        write_figure(length_figure(a_table()), tmp_path / "folder.svg")
