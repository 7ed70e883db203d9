"""CPU-seconds of each test, with its fixtures and all processes that it starts: a budget, a report, and an order.

Wall-clock time depends on what else a machine does; CPU-seconds hardly do. A test that needs more than the budget says
so by a mark, `@pytest.mark.cpu(40)`, or is reported as over it. `--costs FILE` writes the CPU-seconds of test files,
and the files of `tests/costs.json` are run in that order, the costliest first: no worker begins a long one at the end.

    pytest -m "" --costs tests/costs.json
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

BUDGET = 8.0
"""CPU-seconds that a test may use, with the fixtures that it is the first to need."""
ORDER = Path(__file__).parents[1] / "costs.json"
"""CPU-seconds of test files, as they were measured last."""
_KEY = "cpu-seconds"
_MOST_LINES = 40
_SHORT_SECONDS = 0.05
"""Wall-clock time of a part of a test in which other processes are not looked at.

To read what each process of a test has used takes milliseconds, three times a test. What they use in a short part
counts as a cost of the next long one.
"""


def _ticks(process: str) -> int:
    """Return the clock ticks of a process and of its children that have ended."""
    with open(f"/proc/{process}/stat") as file:  # noqa: PTH123, pathlib takes longer than to read
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def spent() -> float:
    """Return the CPU-seconds of this process and all its descendants so far, without orphans."""
    if not Path("/proc/self/task").exists():
        return sum(os.times()[:4])
    ticks, waiting = 0, ["self"]
    while waiting:
        process = waiting.pop()
        try:
            ticks += _ticks(process)
            for task in Path(f"/proc/{process}/task").iterdir():
                waiting += (task / "children").read_text().split()
        except OSError:  # it has just ended, and its parent counts it
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


class Costs:
    """Plugin that measures tests where they run, and gathers the measurements where they are reported."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: Path | None = config.getoption("--costs")
        self._before = 0.0
        self._own_before = 0.0
        self._began = 0.0
        self._tests: Counter[str] = Counter()
        self._budgets: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record the CPU-seconds before a test."""
        self._begin(self._spent())
        return (yield)

    def _begin(self, now: float) -> None:
        """Begin a part of a test, after this many CPU-seconds."""
        self._before, self._own_before, self._began = now, time.process_time(), time.monotonic()

    def _spent(self) -> float:
        """Return the CPU-seconds so far, without other processes in a short part of a test."""
        if time.monotonic() - self._began < _SHORT_SECONDS:
            return self._before + time.process_time() - self._own_before
        return spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        """Write what each part of a test has cost into its report, which travels to the process that reports."""
        report: pytest.TestReport = yield
        now = self._spent()
        mark = item.get_closest_marker("cpu")
        report.user_properties.append((_KEY, (max(0.0, now - self._before), mark.args[0] if mark else BUDGET)))
        self._begin(now)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the parts of each test."""
        for name, value in report.user_properties:
            if name == _KEY:
                self._tests[report.nodeid] += value[0]
                self._budgets[report.nodeid] = value[1]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Report the tests that are over their budget, and write the costs of files on request."""
        over = [(test, cost) for test, cost in self._tests.most_common() if cost > self._budgets[test]]
        if over:
            terminalreporter.section(f"{len(over)} tests need more CPU-seconds than their budget")
            for test, cost in over[:_MOST_LINES]:
                terminalreporter.line(f"{cost:6.1f} of {self._budgets[test]:g} s  {test}")
        if self._tests:
            terminalreporter.line(f"{self._tests.total():.0f} CPU-seconds in all tests")
        if self._file:
            self._write(self._file)

    def _write(self, file: Path) -> None:
        """Write the costs of the files that were run, and keep the costs of other files that still exist."""
        measured: Counter[str] = Counter()
        for test, cost in self._tests.items():
            measured[test.partition("::")[0]] += cost
        costs = read_costs(file) | {each: round(cost, 1) for each, cost in measured.items()}
        lines = {each: cost for each, cost in sorted(costs.items()) if (ORDER.parents[1] / each).exists()}
        file.write_text(json.dumps(lines, indent=1) + "\n")


def read_costs(file: Path = ORDER) -> dict[str, float]:
    """Return the CPU-seconds of test files, as far as they have been measured."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes costs."""
    parser.addoption("--costs", type=Path, metavar="FILE", help="write the CPU-seconds of test files there")


def pytest_configure(config: pytest.Config) -> None:
    """Add the mark, and measure."""
    config.addinivalue_line("markers", f"cpu(seconds): may need more than the budget of {BUDGET:g} CPU-seconds")
    config.pluginmanager.register(Costs(config), "costs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the most expensive files first. The rest keeps its order."""
    costs = read_costs()
    items.sort(key=lambda item: -costs.get(item.nodeid.partition("::")[0], 0))
