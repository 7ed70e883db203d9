"""Forecasts are scaled from earlier runs by the size of the work. Their range shows how weak the evidence is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flows.display import forecasts
from flows.runs.cost import Cost
from flows.runs.evidence import Evidence, evidence_of, references
from flows.runs.forecast import Forecaster, forecast_run
from flows.runs.machine import Free, Machine
from flows.runs.selection import Selection
from flows.runs.sizes import Sizes, expected
from flows.runs.span import Span, StageForecast
from flows.runs.summary import RunSummary, StageSummary
from flows.settings import Prices, Settings
from nmt_core.config import PipelineConfig
from nmt_core.recipes.recipe import load_recipe
from nmt_core.stages.table import plan

TOOK = {"clean": 10.0, "tokenizer": 4.0, "train": 200.0, "evaluate": 5.0, "register": 2.0}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"NMT_HOME": str(tmp_path), "NMT_THREADS": "2"})


def ran(settings: Settings, config: PipelineConfig, **changes: Any) -> Evidence:
    """Return a run of a recipe on this machine that took `TOOK`, for work of the expected size."""
    sizes = expected(config, Sizes()).model_copy(update={"trained_tokens": 2_000_000, "tokens_per_second": 10_400})
    costs = {name: Cost(seconds=seconds, cpu_seconds=2 * seconds) for name, seconds in TOOK.items()}
    values: dict[str, Any] = {"origin": "run", "label": "run 1", "config": config, "sizes": sizes, "costs": costs}
    return Evidence(**(values | {"machine": Machine.of(settings)} | changes))


def foreseen(config: PipelineConfig, settings: Settings, evidence: Sequence[Evidence], stage: str) -> StageForecast:
    return Forecaster(config, settings, plan(config, settings.store), evidence).stage(stage)


def test_the_same_recipe_takes_as_long_again(settings: Settings) -> None:
    config = load_recipe("quickstart")
    for stage, seconds in TOOK.items():
        found = foreseen(config, settings, [*references(), ran(settings, config)], stage)
        assert found.seconds is not None
        assert found.seconds.likely == pytest.approx(seconds)
        assert found.seconds.high < 1.5 * found.seconds.low
        assert found.cpu_seconds == pytest.approx(2 * seconds)
        assert (found.origin, found.basis) == ("run", "run 1")


@pytest.mark.parametrize(
    ("change", "stage", "factor"),
    [
        ("corpus.toy.pairs=60000", "clean", 2),
        ("train.max_updates=1200", "train", 2),
        ("train.max_tokens=8192", "train", 2),
        ("search.beam_size=8", "evaluate", 2),
        ("corpus.toy.held_out=1000", "evaluate", 2),
    ],
)
def test_more_work_takes_longer_in_proportion(settings: Settings, change: str, stage: str, factor: float) -> None:
    before = ran(settings, load_recipe("quickstart"))
    found = foreseen(load_recipe("quickstart", [change]), settings, [before], stage)
    assert found.seconds is not None
    assert found.seconds.likely == pytest.approx(TOOK[stage] * factor, rel=0.15)  # without the constant part


def test_a_larger_model_takes_longer_and_the_range_grows(settings: Settings) -> None:
    before = ran(settings, load_recipe("quickstart"))
    larger = load_recipe("quickstart", ["model.d_model=512", "model.d_ff=2048", "model.num_heads=8"])
    small = foreseen(load_recipe("quickstart"), settings, [before], "train").seconds
    found = foreseen(larger, settings, [before], "train").seconds
    assert small is not None
    assert found is not None
    assert found.likely > 5 * small.likely
    assert found.high / found.low > 1.5 * small.high / small.low


def test_a_run_is_believed_more_than_a_measurement_and_this_more_than_a_guess(settings: Settings) -> None:
    config = load_recipe("quickstart")
    run = ran(settings, config)
    measured = ran(settings, config, origin="measurement", label="measurement 1")
    widths = []
    for evidence in ([run, measured, *references()], [measured, *references()], references()):
        found = foreseen(config, settings, evidence, "train")
        assert found.seconds is not None
        widths.append((found.origin, found.seconds.high / found.seconds.low))
    assert [origin for origin, _ in widths] == ["run", "measurement", "reference"]
    assert widths[0][1] < widths[1][1] < widths[2][1]
    assert widths[2][1] > 4


def test_several_equal_runs_give_their_median_and_contain_them_all(settings: Settings) -> None:
    config = load_recipe("quickstart")
    runs = [ran(settings, config, costs={"train": Cost(seconds=seconds)}) for seconds in (300.0, 100.0, 200.0)]
    found = foreseen(config, settings, runs, "train")
    assert found.seconds is not None
    assert found.seconds.likely == pytest.approx(200)
    assert found.seconds.low <= 100 < 300 <= found.seconds.high
    assert found.basis == "run 1 and 2 more"


def test_a_training_of_few_updates_is_judged_by_the_speed_of_its_updates(settings: Settings) -> None:
    """Most of its time is the start of processes, which does not grow."""
    config = load_recipe("quickstart", ["train.max_updates=10", "average.checkpoints=1"])
    sizes = {"updates": 10, "trained_tokens": 33_000, "tokens_per_second": 16_500}
    short = ran(settings, config, costs={"train": Cost(seconds=20.0)})
    short = ran(settings, config, costs=short.costs, sizes=short.sizes.model_copy(update=sizes))
    found = foreseen(load_recipe("quickstart"), settings, [short], "train")
    assert found.seconds is not None
    assert 110 < found.seconds.likely < 150, "600 updates of 0.2 s, and not 60 times 20 s"


def test_another_machine_with_fewer_threads_is_slower_and_less_certain(settings: Settings) -> None:
    config = load_recipe("quickstart")
    here = Machine.of(settings)
    elsewhere = ran(settings, config, machine=here.model_copy(update={"cpu": "another", "threads": 1}))
    found, same = (foreseen(config, settings, [one], "train").seconds for one in (elsewhere, ran(settings, config)))
    assert found is not None
    assert same is not None
    assert found.likely == pytest.approx(same.likely / 2)
    assert found.high / found.low > same.high / same.low


def test_text_that_is_not_here_gives_no_time(settings: Settings) -> None:
    config = load_recipe("multi30k-en-de")
    found = foreseen(config, settings, references(), "clean")
    assert (found.seconds, found.disk_bytes, found.basis) == (None, None, "the text is not here")
    assert foreseen(config, settings, references(), "train").seconds is not None


def test_patience_may_end_a_training_early_and_a_budget_must(settings: Settings) -> None:
    before = [ran(settings, load_recipe("quickstart"))]
    patient = foreseen(load_recipe("quickstart", ["train.patience=1"]), settings, before, "train").seconds
    bounded = foreseen(load_recipe("quickstart", ["budget.max_hours=0.01"]), settings, before, "train").seconds
    assert patient is not None
    assert patient.low < 40
    assert patient.high > 200
    assert bounded is not None
    assert bounded.high == pytest.approx(36)


def test_memory_follows_the_rule_and_what_an_earlier_run_took(settings: Settings) -> None:
    config = load_recipe("quickstart")
    by_rule = foreseen(config, settings, [ran(settings, config)], "clean").memory_bytes
    assert by_rule is not None
    costs = {name: Cost(seconds=9, memory_bytes=round(2 * by_rule)) for name in ("clean", "train")}
    before = ran(settings, config, costs=costs)
    assert foreseen(config, settings, [before], "clean").memory_bytes == pytest.approx(2 * by_rule, rel=0.01)
    longer = load_recipe("quickstart", ["train.micro_batch_tokens=8192", "train.max_tokens=8192"])
    same, more = (foreseen(one, settings, [before], "train").memory_bytes or 0 for one in (config, longer))
    assert same == pytest.approx(2 * by_rule, rel=0.01)
    assert same < more < 2 * same, "activations grow with the batch, and weights do not"


def test_runs_of_the_home_are_evidence_and_broken_or_resumed_ones_are_not(settings: Settings) -> None:
    config = load_recipe("quickstart")
    summary = RunSummary.begin(config, "20260101-a")
    summary.machine, summary.sizes = Machine.of(settings), expected(config, Sizes())
    for name, status in (("clean", "done"), ("split", "reused"), ("train", "done"), ("average", "failed")):
        row = StageSummary(name=name, fingerprint="1", status=status)  # type: ignore[arg-type]
        summary.stages.append(row)
    summary.write(settings.runs)
    (first, *rest) = evidence_of(settings)
    assert (first.label, set(first.costs)) == ("run 20260101-a", {"clean", "train"})
    assert {one.origin for one in rest} == {"reference"}
    summary.sizes = summary.sizes.model_copy(update={"is_resumed": True})
    summary.write(settings.runs)
    assert set(evidence_of(settings)[0].costs) == {"clean"}


def test_a_run_forecasts_the_stages_that_it_makes(settings: Settings) -> None:
    config = load_recipe("quickstart")
    found = forecast_run(config, settings, Selection("download", "split"))
    assert [one.name for one in found] == ["download", "clean", "split"]
    assert forecast_run(config, settings, Selection("evaluate"))[-1].name == "register"


def test_a_forecast_that_fails_ends_no_run(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Forecaster, "stage", lambda self, name: 1 / 0)
    assert forecast_run(load_recipe("quickstart"), settings, Selection()) == []
    assert "there is no forecast" in caplog.text


def test_money_is_the_price_of_processors() -> None:
    one = StageForecast(name="train", seconds=Span.around(3_600, 2), cpu_seconds=7_200, gpu_seconds=3_600)
    assert one.money(0, 0) is None
    assert one.money(2.5, 0.1) == Span(likely=2.7, low=1.35, high=5.4)
    both = forecasts.table([one, one], Prices(2.5, 0.1, "EUR"))
    assert list(both.columns[4].cells) == ["1.35 to 10.80 EUR".replace("10.80", "5.40")] * 2 + ["2.70 to 10.80 EUR"]


@pytest.mark.parametrize(
    ("likely", "factor", "text"),
    [
        (0.04, 1.1, "under 1 s"),
        (1.54, 1.1, "about 1.5 s"),
        (100.0, 1.2, "about 100 s"),
        (100.0, 1.5, "67 s to 2.5 min"),
        (30.0, 2.0, "15 to 60 s"),
        (9_000.0, 1.2, "about 2.5 h"),
        (900_000.0, 1.2, "about 10 days"),
    ],
)
def test_a_narrow_range_is_one_figure(likely: float, factor: float, text: str) -> None:
    assert forecasts.time_of(Span.around(likely, factor)) == text


def test_a_machine_that_is_too_small_is_warned_of_with_a_remedy() -> None:
    needs = [
        StageForecast(name="train", memory_bytes=9e9, disk_bytes=5e9),
        StageForecast(name="clean", memory_bytes=3e9, disk_bytes=6e9),
    ]
    assert forecasts.warnings(needs, Free(disk=12 * 10**9, memory=10 * 10**9, memory_limit=None)) == []
    disk, memory = forecasts.warnings(needs, Free(disk=10 * 10**9, memory=4 * 10**9, memory_limit=4 * 10**9))
    for fact in ("11.0 GB", "10.0 GB", "NMT_HOME"):
        assert fact in disk
    for fact in ("train", "9.0 GB", "4.0 GB", "smaller model"):
        assert fact in memory
    assert "limit of 4.0 GB" in forecasts.free_line(Free(1, 1, 4 * 10**9))


def test_forecast_and_truth_are_compared_when_all_is_known() -> None:
    summary = RunSummary.begin(load_recipe("quickstart"), "run")
    for name, seconds in (("clean", 30.0), ("train", 90.0)):
        summary.stages.append(StageSummary(name=name, fingerprint="1", status="done", cost=Cost(seconds=seconds)))
    assert forecasts.compared(summary) == ""
    summary.forecast = [StageForecast(name=name, seconds=Span.around(50, 1.2)) for name in ("clean", "train")]
    assert forecasts.compared(summary) == (
        "The stages took 2 min. The forecast was about 100 s (likely 100 s; 1.20 times too low)."
    )
    summary.stages[0].cost.cpu_seconds = 40.0
    summary.forecast[0] = summary.forecast[0].model_copy(update={"cpu_seconds": 50.0})
    assert forecasts.compared(summary).endswith("Of CPU time they took 40 s, and the forecast was 50 s.")


def test_a_busy_machine_is_named() -> None:
    assert forecasts.busy_line(Free(1, 1, None, load=0.4)) == ""
    assert "3.1 compete for each CPU" in forecasts.busy_line(Free(1, 1, None, load=3.1))
    assert Free.of(Path("nowhere")).load >= 0
