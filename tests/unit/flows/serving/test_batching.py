"""Lines of several requests are computed together. Each gets its own result, and no more wait than allowed."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flows.serving.batching import MOST_LINES, Batcher, OverloadedError


class Held:
    """Computation that waits until it is released, and remembers its input."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[str]]] = []
        self.began = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, key: str, lines: Sequence[str]) -> list[str]:
        self.began.release()
        assert self.go.wait(600)
        self.batches.append((key, list(lines)))
        if "bad" in lines:
            raise ValueError("bad")
        return [f"{key}:{line}" for line in lines]


@pytest.fixture
def held() -> Held:
    """The computation."""
    return Held()


@pytest.fixture
def batcher(held: Held) -> Iterator[Batcher[str, str]]:
    """A batcher of one thread, for 200 waiting lines."""
    batcher = Batcher(held, threads=1, most_waiting=200)
    yield batcher
    held.go.set()
    batcher.close()


def results(*futures: Any) -> list[str]:
    return [future.result(600) for of_one in futures for future in of_one]


def busy(held: Held, batcher: Batcher[str, str]) -> Any:
    """Give the thread a line, and return its future when the thread is working on it."""
    first = batcher.submit("a", ["first"])
    assert held.began.acquire(timeout=600)
    return first


def test_what_waits_at_the_same_time_is_one_batch_of_each_key(held: Held, batcher: Batcher[str, str]) -> None:
    first = busy(held, batcher)
    asked = [batcher.submit(key, lines) for key, lines in (("a", ["1", "2"]), ("b", ["3"]), ("a", ["4"]), ("b", []))]
    assert batcher.waiting == 4
    held.go.set()
    assert results(first, *asked) == ["a:first", "a:1", "a:2", "b:3", "a:4"]
    assert held.batches == [("a", ["first"]), ("a", ["1", "2", "4"]), ("b", ["3"])]
    assert batcher.sizes == {1: 2, 3: 1}


def test_a_batch_has_a_limit(held: Held, batcher: Batcher[str, str]) -> None:
    busy(held, batcher)
    lines = [str(number) for number in range(2 * MOST_LINES + 1)]
    asked = batcher.submit("a", lines)
    held.go.set()
    assert results(asked) == [f"a:{line}" for line in lines]
    assert [len(batch) for _, batch in held.batches] == [1, MOST_LINES, MOST_LINES, 1]


def test_threads_share_what_waits(held: Held) -> None:
    batcher = Batcher(held, threads=2, most_waiting=200)
    firsts = [busy(held, batcher), busy(held, batcher)]
    asked = batcher.submit("a", [str(number) for number in range(10)])
    held.go.set()
    results(*firsts, asked)
    assert max(len(batch) for _, batch in held.batches) <= 5
    batcher.close()


def test_too_many_lines_are_refused_whole(held: Held, batcher: Batcher[str, str]) -> None:
    first = busy(held, batcher)
    waiting = batcher.submit("a", ["x"] * 199)
    with pytest.raises(OverloadedError, match="199 waiting lines, and there may be 200"):
        batcher.submit("a", ["y", "z"])
    last = batcher.submit("a", ["y"])
    held.go.set()
    assert len(results(first, waiting, last)) == 201


def test_an_error_reaches_its_own_batch_and_the_thread_lives(held: Held, batcher: Batcher[str, str]) -> None:
    held.go.set()
    with pytest.raises(ValueError, match="bad"):
        results(batcher.submit("a", ["bad"]))
    assert results(batcher.submit("a", ["good"])) == ["a:good"]


def test_lines_whose_client_has_gone_are_not_computed(held: Held, batcher: Batcher[str, str]) -> None:
    busy(held, batcher)
    gone, stays = batcher.submit("a", ["gone"]), batcher.submit("a", ["stays"])
    assert gone[0].cancel()
    held.go.set()
    assert results(stays) == ["a:stays"]
    assert ("a", ["stays"]) in held.batches


def test_what_waits_is_computed_before_the_end_and_nothing_is_accepted_after_it(held: Held) -> None:
    batcher = Batcher(held, threads=1, most_waiting=200)
    first = busy(held, batcher)
    asked = batcher.submit("a", ["1"])
    held.go.set()
    batcher.close()
    assert results(first, asked) == ["a:first", "a:1"]
    with pytest.raises(OverloadedError):
        batcher.submit("a", ["2"])
