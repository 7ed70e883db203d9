"""Time, processors, tokens, energy and money of a stage."""

import os
import subprocess
import sys

import pytest

from flows.runs.cost import Cost, StageMeter, total
from flows.settings import Prices, Settings
from nmt_core.errors import ConfigError
from nmt_core.train.spent import Spent

FREE = Prices()


def test_the_time_of_processors_is_measured_with_children() -> None:
    meter = StageMeter()
    subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)
    cost = meter.cost({"tokens": 7}, Spent(), FREE)
    assert 0.05 < cost.cpu_seconds <= cost.seconds * (os.cpu_count() or 1)
    assert (cost.gpu_seconds, cost.tokens, cost.energy_watt_hours, cost.money) == (0, 7, None, None)


def test_training_counts_by_its_own_meter_and_only_what_this_run_added() -> None:
    before, after = Spent(100, 400, 90, 1), Spent(160, 640, 150, 2)
    cost = StageMeter(before).cost({"source_tokens": 2, "target_tokens": 3}, after, Prices(gpu_hour=3.0, cpu_hour=0.6))
    assert (cost.gpu_seconds, cost.cpu_seconds, cost.tokens) == (240, 60, 5)
    assert cost.money == pytest.approx(240 / 3_600 * 3 + 60 / 3_600 * 0.6, abs=1e-4)


def test_translating_on_a_gpu_holds_one() -> None:
    report = {"seconds": 12.5, "device": "cuda"}
    assert StageMeter().cost(report, Spent(), FREE).gpu_seconds == 12.5
    assert StageMeter().cost(report | {"device": "cpu"}, Spent(), FREE).gpu_seconds == 0


def test_energy_is_the_power_of_all_gpus_over_time() -> None:
    heard: list[int] = []
    now = [0.0]
    meter = StageMeter(clock=lambda: now[0])
    tell = meter.passing_on(lambda step, values: heard.append(step))
    for step in range(3):
        now[0] += 10
        tell(step, {"system/gpu_0_power_usage_watts": 300.0, "system/gpu_1_power_usage_watts": 60.0, "system/x": 1.0})
    assert meter.cost({}, Spent(), FREE).energy_watt_hours == pytest.approx(360 * 30 / 3_600)
    assert heard == [0, 1, 2]


def test_costs_add_up_and_what_is_unknown_stays_so() -> None:
    assert total([]) == Cost()
    both = total([Cost(seconds=1, tokens=2, money=0.5), Cost(seconds=2, energy_watt_hours=3.0)])
    assert both == Cost(seconds=3, tokens=2, energy_watt_hours=3, money=0.5)
    assert both.metrics()["cost.money"] == 0.5
    assert "cost.money" not in Cost().metrics()


def test_prices_are_settings() -> None:
    settings = Settings.load({"NMT_GPU_HOUR_PRICE": "2.5", "NMT_CPU_HOUR_PRICE": "0", "NMT_CURRENCY": "USD"})
    assert settings.prices == Prices(2.5, 0.0, "USD")
    assert Settings.load({}).prices == Prices(0.0, 0.0, "EUR")


@pytest.mark.parametrize("value", ["2,5", "-1", "free", ".", "1e3", "nan"])
def test_a_price_that_is_none_is_an_error(value: str) -> None:
    with pytest.raises(ConfigError, match=r"NMT_GPU_HOUR_PRICE=.*must be a number such as"):
        Settings.load({"NMT_GPU_HOUR_PRICE": value})
