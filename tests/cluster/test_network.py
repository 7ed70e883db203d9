"""Training on hosts with a network between them that is cut, slow or loses packets: `make cluster` runs this.

Hosts are network namespaces of this machine, with addresses and host names of their own (`support/network.py`).
"""

import time
from collections.abc import Callable

import pytest
from support.hosts import PORT, OnHosts
from support.network import Network
from support.ranks import Ranks
from support.trainings import InBackground, Training, Watched

pytestmark = [pytest.mark.cluster, pytest.mark.cpu(120), pytest.mark.timeout(1_800)]

TrainingOf = Callable[..., Training]
FEW = {"max_updates": 12, "validate_every": 3, "micro_batch_tokens": 128, "learning_rate_scale": 0.1}
HOSTS = 2
SECONDS_OF_A_CUT = 5


class InterruptionError(Exception):
    """Error that a test raises in a running stage, as Ctrl-C would."""


def interrupt() -> None:
    raise InterruptionError


def losses(reporter: Watched) -> dict[tuple[str, float], float]:
    points = reporter.points
    return {(name, step): value[name] for step, value in points for name in value if name.endswith("_loss")}


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_slow_link_that_loses_packets_and_is_cut_changes_no_loss(
    training_of: TrainingOf, joined: Network, ranks: Ranks, parallel: str
) -> None:
    listening: list[set[str]] = []

    def disturb() -> None:
        listening.extend(host.listening() for host in joined.hosts)
        joined.set(cut=True)
        time.sleep(SECONDS_OF_A_CUT)
        joined.set(delay=0.05, loss=0.05)

    reporter, alone = Watched(3, disturb), Watched()
    training_of("hosts", parallel=parallel, **FEW).by(OnHosts(joined.hosts), reporter)
    training_of("one", **FEW).by(ranks.launcher(), alone)
    assert losses(reporter) == pytest.approx(losses(alone), rel=1e-5)
    first, second = listening
    assert f"*:{PORT}" in first, "all meet at the first host"
    assert len(others(first, joined.hosts[0].address)) == 2, "that port, and the one of the first process"
    assert not others(second, joined.hosts[1].address), "the second host listens on the address of its network alone"


def others(listening: set[str], address: str) -> list[str]:
    """Return the addresses other than this one on which a process listens."""
    return [each for each in listening if not each.startswith(f"{address}:")]


def test_a_host_that_is_killed_and_comes_back_loses_no_update(training_of: TrainingOf, joined: Network) -> None:
    training = training_of(max_updates=10_000, checkpoint_every=25, validate_every=10_000)
    launcher, reporter = OnHosts(joined.hosts, nodes="1:2"), Watched()
    run = InBackground(lambda: training.by(launcher, reporter))
    run.until(lambda: reporter.points and training.saved_update >= 25)
    launcher.kill(1)
    lost_at = reporter.points[-1][0]
    run.until(lambda: reporter.points[-1][0] > lost_at + 50)
    launcher.start(1)
    run.until(lambda: launcher.trains(1))
    joined_at = reporter.points[-1][0]
    run.until(lambda: reporter.points[-1][0] > joined_at + 50)
    assert launcher.trains(0) and launcher.trains(1)
    reporter.act = interrupt
    with pytest.raises(InterruptionError):
        run.result()
    updates = training.updates()
    assert updates == list(range(25, 25 * len(updates) + 1, 25))
