"""Tasks give the same results and the same errors, whichever workers run them and whichever die."""

import itertools
import operator
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from support.until import patient, until

from nmt_core.errors import DataError, NmtError, StageError
from nmt_core.execution.pool import InProcess, LocalWorkers, Workers

_TASKS = '''
import errno, os, signal, subprocess, sys, threading, time
from pathlib import Path
from nmt_core.errors import DataError

def pid(_):
    return os.getpid()

def meet(names):
    """Done when another one is here at the same time."""
    own, other = map(Path, names)
    own.touch()
    while not other.exists():
        time.sleep(0.01)
    return os.getpid()

def wait_for(name):
    while name and not Path(name).exists():
        time.sleep(0.01)
    return name

def hang(name):
    part = Path(f"{name}.part")
    part.write_text(str(os.getpid()))
    part.rename(name)
    time.sleep(0 if name.endswith("soon done") else 600)

def start_a_program(name):
    if not name:
        return
    part = Path(f"{name}.part")
    part.write_text(str(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid))
    part.rename(name)
    time.sleep(600)

def die_once(name):
    if not Path(name).exists():
        Path(name).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return name

def die_if_big(name):
    if name == "big shard":
        os.kill(os.getpid(), signal.SIGKILL)

def leave(_):
    os._exit(3)

class Odd(Exception):
    def __init__(self, where, what):
        super().__init__(f"{where}: {what}")

class Holding(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()

def fail(kind):
    if kind == "data":
        raise DataError("shard 7: no rows: add a corpus")
    if kind == "system":
        raise OSError(errno.ENOSPC, "No space left on device", "/data")
    if kind == "wrapped":
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise DataError("cannot write") from error
    if kind == "odd":
        raise Odd("here", "that")
    if kind == "exit":
        sys.exit("over")
    if kind == "holding":
        raise Holding("held")
    return threading.Lock() if kind == "result" else kind
'''


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of tasks that a child can import."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "some_tasks.py").write_text(_TASKS)
    monkeypatch.syspath_prepend(folder)
    import some_tasks  # type: ignore[import-not-found]

    yield some_tasks
    del sys.modules["some_tasks"]


@pytest.fixture
def workers() -> Iterator[LocalWorkers]:
    """There are two children, and neither is left at the end, not even as a zombie.

    Servers that other tests share may start or end meanwhile, and do not count.
    """
    before = psutil.Process().children()
    with LocalWorkers(2) as workers:
        yield workers
    assert [child for child in psutil.Process().children() if child not in before] == []


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def pids_of(files: list[Path]) -> list[int]:
    until(lambda: all(file.exists() for file in files))
    return [int(file.read_text()) for file in files]


def test_each_child_may_have_an_environment_of_its_own(tasks: ModuleType, tmp_path: Path) -> None:
    """A child that replaces a dead one gets its environment, and no two living children have the same."""
    with LocalWorkers(2, [{"DEVICE": "first"}, {"DEVICE": "second"}]) as workers:
        assert set(workers.map(os.getenv, ["DEVICE"] * 2)) == {"first", "second"}
        assert list(workers.map(tasks.die_once, [str(tmp_path / name) for name in "ab"]))
        assert set(workers.map(os.getenv, ["DEVICE"] * 2)) == {"first", "second"}


@pytest.mark.parametrize("number", [0, 1, 2, 3, 40])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_come_in_the_order_of_the_tasks(count: int, number: int) -> None:
    with LocalWorkers(count) as workers:
        assert list(workers.map(abs, range(-number, 0))) == list(range(number, 0, -1))


def test_two_tasks_are_done_at_the_same_time(workers: LocalWorkers, tasks: ModuleType, tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    pids = list(workers.map(tasks.meet, [(one, other), (other, one)]))
    assert len({*pids, os.getpid()}) == 3


def test_the_same_children_do_the_next_tasks(workers: LocalWorkers, tasks: ModuleType) -> None:
    first = set(workers.map(tasks.pid, range(20)))
    assert set(workers.map(tasks.pid, range(20))) <= first and len(first) <= 2


@pytest.mark.parametrize("alone", [LocalWorkers(1), InProcess()])
def test_one_worker_is_this_process(alone: Workers, tasks: ModuleType) -> None:
    assert set(alone.map(tasks.pid, range(3))) == {os.getpid()}


def test_a_single_task_is_done_in_this_process(workers: LocalWorkers, tasks: ModuleType) -> None:
    assert list(workers.map(tasks.pid, [0])) == [os.getpid()]


def test_tasks_are_taken_as_they_are_needed(workers: LocalWorkers) -> None:
    numbers = itertools.count()
    assert list(itertools.islice(workers.map(abs, numbers), 100)) == list(range(100))
    assert next(numbers) < 110


def test_a_slow_task_does_not_let_the_others_run_ahead(
    workers: LocalWorkers, tasks: ModuleType, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    taken_early: list[int] = []

    def numbered() -> Iterator[str]:
        yield str(ready)
        for number in range(50):
            if not ready.exists():
                taken_early.append(number)
            yield ""

    threading.Timer(1.0, ready.touch).start()
    assert len(list(workers.map(tasks.wait_for, numbered()))) == 51
    assert len(taken_early) <= 6


def test_the_next_tasks_are_read_while_all_are_busy(workers: LocalWorkers, tasks: ModuleType, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    were_all_busy = []

    def waiting_for_the_gate() -> Iterator[str]:
        for number in range(6):
            if number == 3:  # two are being done, and one is read ahead
                were_all_busy.append(not gate.exists())
                gate.touch()
            yield str(gate)

    until_then = threading.Timer(patient(60), gate.touch)
    until_then.start()
    assert len(list(workers.map(tasks.wait_for, waiting_for_the_gate()))) == 6
    until_then.cancel()
    assert were_all_busy == [True]


def test_a_map_may_feed_another(workers: LocalWorkers) -> None:
    results = workers.map(abs, workers.map(operator.neg, range(50)))
    assert list(results) == list(range(50))


def test_each_child_has_one_thread_for_libraries(workers: LocalWorkers) -> None:
    assert list(workers.map(os.getenv, ["POLARS_MAX_THREADS", "OMP_NUM_THREADS"])) == ["1", "1"]


def test_a_task_whose_worker_is_killed_is_done_by_another(
    workers: LocalWorkers, tasks: ModuleType, tmp_path: Path
) -> None:
    names = [str(tmp_path / f"died-{number}") for number in range(6)]
    assert list(workers.map(tasks.die_once, names)) == names
    assert all(Path(name).exists() for name in names), "each has died once: six deaths, but none of them three times"


def test_children_that_are_killed_while_idle_are_replaced(workers: LocalWorkers, tasks: ModuleType) -> None:
    killed = set(workers.map(tasks.pid, range(20)))
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    later = set(workers.map(tasks.pid, range(20)))
    assert later and not later & killed
    assert not any(psutil.pid_exists(pid) for pid in killed), "no zombie"


def test_a_task_that_kills_three_workers_is_an_error(workers: LocalWorkers, tasks: ModuleType) -> None:
    message = r"killed by SIGKILL, 3 times on the same task, some_tasks\.die_if_big of 'big shard'.*lower NMT_THREADS"
    with pytest.raises(StageError, match=message):
        list(workers.map(tasks.die_if_big, ["big shard", "another"]))
    with pytest.raises(StageError, match="ended with code 3, 3 times"):
        list(workers.map(tasks.leave, [1, 2]))
    assert list(workers.map(abs, [-1, -2])) == [1, 2], "it keeps working"


def test_an_error_of_the_user_is_raised_as_such(workers: LocalWorkers, tasks: ModuleType) -> None:
    with pytest.raises(NmtError) as raised:
        list(workers.map(tasks.fail, ["fine", "data", "fine"]))
    assert type(raised.value) is DataError
    assert str(raised.value) == "shard 7: no rows: add a corpus"


def test_an_error_of_the_system_keeps_its_number_and_shows_where_it_was_raised(
    workers: LocalWorkers, tasks: ModuleType
) -> None:
    with pytest.raises(OSError, match="No space left") as raised:
        list(workers.map(tasks.fail, ["system", "fine"]))
    assert (raised.value.errno, raised.value.filename) == (28, "/data")
    assert "some_tasks.py" in raised.value.__notes__[0]


def test_the_cause_of_an_error_comes_with_it(workers: LocalWorkers, tasks: ModuleType) -> None:
    with pytest.raises(DataError, match="cannot write") as raised:
        list(workers.map(tasks.fail, ["wrapped", "fine"]))
    assert isinstance(raised.value.__cause__, OSError) and raised.value.__cause__.errno == 28


@pytest.mark.parametrize(
    ("kind", "message"),
    [("odd", "some_tasks.Odd: here: that"), ("holding", "some_tasks.Holding: held"), ("exit", "SystemExit: over")],
)
def test_an_error_that_cannot_travel_says_the_same(
    kind: str, message: str, workers: LocalWorkers, tasks: ModuleType
) -> None:
    with pytest.raises(RuntimeError) as raised:
        list(workers.map(tasks.fail, [kind, "fine"]))
    assert str(raised.value) == message
    assert "in fail" in raised.value.__notes__[0]


def test_a_result_or_a_task_that_cannot_be_pickled_is_an_error(workers: LocalWorkers, tasks: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"cannot pickle .*lock"):
        list(workers.map(tasks.fail, ["result", "fine"]))
    with pytest.raises(TypeError, match=r"cannot pickle .*lock"):
        list(workers.map(str, [threading.Lock(), threading.Lock()]))


def test_the_first_task_that_fails_decides(workers: LocalWorkers, tasks: ModuleType) -> None:
    results = workers.map(tasks.fail, ["first", "second", "data", "system", "third"])
    assert [next(results), next(results)] == ["first", "second"]
    with pytest.raises(DataError):
        next(results)


def test_tasks_that_are_no_longer_waited_for_end(workers: LocalWorkers, tasks: ModuleType, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    others = psutil.Process().children()
    results = workers.map(tasks.wait_for, [str(ready), str(tmp_path / "never"), str(tmp_path / "never")])
    assert next(results) == str(ready)
    busy = [child for child in psutil.Process().children() if child not in others]
    assert len(busy) == 2
    results.close()  # type: ignore[attr-defined]  # a generator's
    assert not any(child.is_running() for child in busy)


def test_programs_that_a_task_has_started_end_with_it(workers: LocalWorkers, tasks: ModuleType, tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    results = workers.map(tasks.start_a_program, ["", *map(str, files)])
    next(results)
    programs = pids_of(files)
    results.close()  # type: ignore[attr-defined]  # a generator's
    until(lambda: all(map(ended, programs)))


def test_children_outlive_the_thread_that_started_them(workers: LocalWorkers, tasks: ModuleType) -> None:
    found: set[int] = set()
    thread = threading.Thread(target=lambda: found.update(workers.map(tasks.pid, range(20))))
    thread.start()
    thread.join()
    assert set(workers.map(tasks.pid, range(20))) <= found


_PARENT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told its background to ignore it
sys.path.insert(0, sys.argv[1])
import some_tasks
from nmt_core.execution.pool import LocalWorkers
with LocalWorkers(2) as workers:
    print(*workers.map(some_tasks.pid, range(20)), flush=True)
    list(workers.map(some_tasks.hang, sys.argv[2:]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("other", ["two", "soon done"])
def test_no_child_outlives_a_parent_that_is_killed(
    number: signal.Signals, other: str, tasks: ModuleType, tmp_path: Path
) -> None:
    names = [tmp_path / "one", tmp_path / other]
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "modules"), *map(str, names)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout
    children = {*map(int, parent.stdout.readline().split()), *pids_of(names)}
    parent.send_signal(number)
    _, said = parent.communicate(timeout=patient(60))
    assert parent.returncode == -number
    assert said.count("KeyboardInterrupt") == (number == signal.SIGINT), "the children say nothing"
    until(lambda: all(map(ended, children)))


def test_children_find_what_the_parent_finds(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise ValueError('a file of the user with the name of a module')")
    code = (
        "import sys; sys.path[:] = filter(None, sys.path)\n"
        "from nmt_core.execution.pool import LocalWorkers, shown\n"
        "with LocalWorkers(2) as workers: print(len(list(workers.map(str, [shown, LocalWorkers]))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")
