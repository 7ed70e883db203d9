"""Quality against speed and size: what is measured, which points are dominated, and what the figure shows of them."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import polars
import pytest

from flows.comparison import pareto
from flows.comparison.pareto import Point, is_dominated, measure_points, pareto_table
from flows.comparison.pareto_figure import pareto_figure
from flows.html_report.svg import Drawing
from nmt_core.config import CorpusConfig, PipelineConfig, SearchConfig, ToyCorpusConfig
from nmt_core.store.artifacts import Artifact
from nmt_core.translator import Translator

SVG = "{http://www.w3.org/2000/svg}"
SOURCES = ["the cat sees a dog.", "a big house", "now the dog runs to it", "the dog runs to it and sees a small cat"]


def a_point(recipe: str, bleu: float, speed: float, megabytes: float, beam_size: int = 1) -> Point:
    values = {"recipe": recipe, "precision": "int8", "beam_size": beam_size, "test_set": "news"}
    measures = {"bleu": bleu, "low": bleu - 1, "high": bleu + 1, "tokens_per_cpu_second": speed, "megabytes": megabytes}
    return Point.model_validate(values | measures)


TEACHER = a_point("teacher", 40, 1_000, 100, beam_size=4)
GREEDY_TEACHER = a_point("teacher", 39, 2_000, 100)
STUDENT = a_point("student", 39.5, 5_000, 20)
BEAM_STUDENT = a_point("student", 39.5, 2_500, 20, beam_size=4)
SMALLEST = a_point("smallest", 30, 4_000, 5)
POINTS = [TEACHER, GREEDY_TEACHER, STUDENT, BEAM_STUDENT, SMALLEST]


def test_a_point_is_dominated_by_one_that_is_worse_in_nothing_and_better_in_something() -> None:
    dominated = [point for point in POINTS if is_dominated(point, POINTS)]
    assert dominated == [GREEDY_TEACHER, BEAM_STUDENT], "the smallest model is slower and worse, but nothing is smaller"
    assert not is_dominated(STUDENT, [STUDENT, STUDENT.model_copy()]), "an equal point dominates nothing"


def test_the_table_has_the_fastest_first_and_names_the_front() -> None:
    titles, *lines = pareto_table(POINTS)
    assert titles == [
        "news: model, precision and search",
        "BLEU",
        "95% interval",
        "tokens/CPU-second",
        "MB",
        titles[-1],
    ]
    assert lines[0] == ["student, int8, greedy", "39.50", "38.5 to 40.5", "5,000", "20.0", "yes"]
    assert [line[0] for line in lines if line[-1] == "-"] == ["student, int8, beam 4", "teacher, int8, greedy"]
    assert lines[-1][0] == "teacher, int8, beam 4"
    assert pareto_table([]) == []


def drawn(points: list[Point]) -> ElementTree.Element:
    drawing = pareto_figure(points)
    assert isinstance(drawing, Drawing)
    return ElementTree.fromstring(drawing.file())


def test_dominated_points_are_grey_and_every_point_is_named() -> None:
    root = drawn(POINTS)
    dots = [(dot.get("class"), float(dot.get("cx", 0)), float(dot.get("r", 0))) for dot in root.iter(f"{SVG}circle")]
    chart, key = dots[: len(POINTS)], dots[len(POINTS) :]
    assert sorted(style for style, *_ in chart) == sorted(style for style, *_ in key)
    assert [style for style, *_ in chart].count("dot faint") == 2
    assert len({style for style, *_ in chart} - {"dot faint"}) == 3, "each recipe has a colour"
    fastest, slowest = max(chart, key=lambda dot: dot[1]), min(chart, key=lambda dot: dot[1])
    assert fastest[2] < slowest[2], "the teacher is larger and slower than its student"
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    for point in POINTS:
        assert point.label in texts
    assert pareto_figure([]) is None


def test_points_are_measured_in_each_precision_greedily_and_with_the_beam(
    int8_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pareto, "_LEAST_CPU_SECONDS", 0.0)
    search = SearchConfig(beam_size=3, max_length_offset=30)
    config = PipelineConfig(name="tiny", corpus=CorpusConfig(toy=ToyCorpusConfig()), search=search)
    in_fp32 = search.model_copy(update={"precision": "fp32"})
    references = [one.text for one in Translator.load(int8_bundle, in_fp32).translate(SOURCES)]
    polars.DataFrame({"source": SOURCES, "target": references}).write_parquet(tmp_path / "news.parquet")
    (tmp_path / "splits.json").write_text(json.dumps({"dev": "dev.parquet", "tests": {"news": "news.parquet"}}))
    export, split = Artifact("export", "0" * 32, int8_bundle), Artifact("split", "0" * 32, tmp_path)
    points = list(measure_points("tiny", config, export, split))
    assert [(point.precision, point.beam_size) for point in points] == [
        ("fp32", 1),
        ("fp32", 3),
        ("int8", 1),
        ("int8", 3),
    ]
    assert points[1].bleu == pytest.approx(100), "the references are its own translations"
    assert min(point.bleu for point in points) < 99, "and no others"
    for point in points:
        assert point.low is not None and point.high is not None and point.low <= point.bleu <= point.high + 1e-6
        assert point.tokens_per_cpu_second > 0
    assert points[2].megabytes < points[0].megabytes
    files = [*int8_bundle.iterdir(), *(int8_bundle / "int8").iterdir()]
    assert points[2].megabytes == round(sum(file.stat().st_size for file in files if file.is_file()) / 1e6, 3)
