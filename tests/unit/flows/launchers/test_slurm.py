"""Training through Slurm's commands, which are stand-ins (see `slurm_stand_in.py`). The jobs are real processes."""

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.facts import raises

from flows.launchers import launcher_for
from flows.launchers.reach import OutOfReachError
from flows.launchers.slurm import SlurmLauncher
from flows.settings import Settings
from nmt_core.errors import ConfigError, PreemptedError
from nmt_core.execution.torchrun import Notice
from nmt_core.train.spent import read_spent

Wait = Callable[[Callable[[], object]], None]


class InterruptionError(Exception):
    """Error that a test raises in a running job, as Ctrl-C or a cancelled flow would."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of a job."""
    folder = tmp_path / "home" / "train" / "0123456789abcdef.partial"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def launcher_of(tmp_path: Path, slurm: Any) -> Callable[..., SlurmLauncher]:
    """Make a launcher with this batch script, which does not train."""

    def make(script: str, **options: float) -> SlurmLauncher:
        template = tmp_path / "template.sbatch"
        template.write_text(f"#!/bin/bash\n{script}\n")
        environment = {"NMT_LAUNCHER": "slurm", "NMT_LAUNCH_TEMPLATE": str(template), "NMT_NODES": "2:4"}
        return SlurmLauncher(Settings.load(environment), "Toy Größe", **({"poll": 0.05, "grace": 10.0} | options))

    return make


def test_lines_come_as_they_are_printed_and_then_the_end(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any
) -> None:
    script = 'echo first; while [ ! -e go ]; do sleep 0.02; done; echo second; printf "no end of line"'
    with launcher_of(script).launch(folder) as job:
        lines = job.lines()
        seen = []
        for line in lines:
            seen.append(line)
            if line == "first":
                (folder / "go").touch()
        assert job.wait() == 0
    told = [line for line in seen if not line.startswith("Slurm job")]
    assert told == ["first", "second", "no end of line"]
    assert seen[-1] == "Slurm job 1 ended: COMPLETED, exit code 0, after 00:01:23 on 4 nodes"
    assert {line for line in seen if isinstance(line, Notice)} == set(seen) - set(told)
    assert slurm.states() == ["COMPLETED"]
    assert read_spent(folder).node_seconds == 4 * 83


def test_what_is_submitted(launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any) -> None:
    launcher = launcher_of("true")
    with launcher.launch(folder) as job:
        assert job.wait() == 0
    submission = slurm.jobs()[0]["submission"]
    name = next(word for word in submission if word.startswith("--job-name="))
    assert re.fullmatch(r"--job-name=nmt-toy-gr-e-01234567-[0-9a-f]{6}", name)
    assert "--nodes=2-4" in submission and f"--chdir={folder}" in submission
    assert " ".join(submission).endswith(f"-m nmt_core.train --config {folder}/config.json")
    assert submission[submission.index("--nnodes") + 1] == "2:4"
    assert submission[submission.index("--nproc-per-node") + 1] == "gpu"
    assert submission[submission.index("--rdzv-endpoint") + 1] == "RENDEZVOUS"
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in submission
    shown = launcher.manifest(folder)
    assert shown.startswith("# sbatch --parsable") and shown.endswith("#!/bin/bash\ntrue\n")


def test_a_failing_job_tells_how(launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any) -> None:
    with launcher_of("echo no space left >&2; exit 3").launch(folder) as job:
        lines = list(job.lines())
        assert job.wait() == 3
    assert lines[-2:] == ["no space left", "Slurm job 1 ended: FAILED, exit code 3, after 00:01:23 on 4 nodes"]
    slurm.be("forgetful")  # the controller keeps a job for some minutes, and then only the accounting has it
    with launcher_of("kill -9 $$").launch(folder) as job:
        assert job.wait() == 137


def test_a_job_that_is_killed_from_outside_has_failed(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any
) -> None:
    with launcher_of("echo up; sleep 60").launch(folder) as job:
        lines = job.lines()
        while next(lines) != "up":
            pass
        subprocess.run(["scancel", "1"], check=True)
        assert list(lines)[-1].startswith("Slurm job 1 ended: CANCELLED, exit code")
        assert job.wait() != 0


def test_leaving_early_asks_for_a_checkpoint_and_ends_the_job(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any
) -> None:
    script = f"srun {_STOPS_ON_TERM}; exit 75"
    with pytest.raises(InterruptionError), launcher_of(script).launch(folder) as job:
        for line in job.lines():
            if line == "up":
                raise InterruptionError
    assert (folder / "checkpoint").exists()
    assert slurm.states() == ["FAILED"]


def test_a_job_that_does_not_listen_is_ended_all_the_same(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any, wait_for: Wait
) -> None:
    script = """srun bash -c 'trap "" TERM; echo up; while :; do sleep 0.02; done'"""
    with pytest.raises(InterruptionError), launcher_of(script, grace=0.5).launch(folder) as job:
        for line in job.lines():
            if line == "up":
                raise InterruptionError
    assert slurm.states() == ["CANCELLED"]
    wait_for(lambda: not psutil.pid_exists(slurm.jobs()[0]["pid"]))


def test_a_job_that_waits_is_taken_back(launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any) -> None:
    slurm.be("busy")
    with pytest.raises(InterruptionError), launcher_of("echo up").launch(folder) as job:
        for line in job.lines():
            assert line == "Slurm job 1 is PENDING (Resources)"
            raise InterruptionError
    assert slurm.states() == ["CANCELLED"]


def test_a_job_that_is_cancelled_while_it_waits_is_no_failure(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any
) -> None:
    slurm.be("busy")
    with (
        raises(PreemptedError, "Slurm job 1 was cancelled before it ran", "the same command"),
        launcher_of("echo up").launch(folder) as job,
    ):
        for line in job.lines():
            if "PENDING" in line:
                subprocess.run(["scancel", "1"], check=True)


def test_a_copy_of_the_template_that_would_kill_training_is_refused(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any
) -> None:
    launcher = launcher_of('stop() { kill -TERM "$srun"; }')
    with raises(ConfigError, "NMT_LAUNCH_TEMPLATE=", "checkpoint", "infra/slurm/train.sbatch"), launcher.launch(folder):
        pass
    assert not slurm.jobs()


def test_a_job_that_cannot_be_cancelled_is_named(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InterruptionError), launcher_of("echo up; sleep 60", grace=0.2).launch(folder) as job:
        for line in job.lines():
            if line == "up":
                slurm.be("away")
                raise InterruptionError
    slurm.be_no_more("away")
    assert re.search(r"Slurm job 1 may still be running: end it with `scancel --name=nmt-toy-\S+`", caplog.text)


def test_the_controller_may_be_away(launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any) -> None:
    slurm.be("away")
    threading.Timer(0.5, slurm.be_no_more, ["away"]).start()
    script = "for i in $(seq 15); do echo line $i; sleep 0.02; done"
    with launcher_of(script).launch(folder) as job:
        seen = []
        for line in job.lines():
            seen.append(line)
            if line == "line 3":
                slurm.be("away")
                threading.Timer(1.0, slurm.be_no_more, ["away"]).start()
        assert job.wait() == 0
    assert [line for line in seen if line.startswith("line")] == [f"line {i}" for i in range(1, 16)]
    told = [line for line in seen if "controller" in line]
    assert len(told) == 4
    assert re.match(r"the Slurm controller does not answer \(.*Unable to contact slurm controller", told[0])
    assert told[1] == told[3] == "the Slurm controller answers again"
    assert len(slurm.jobs()) == 1


def test_a_controller_that_stays_away_ends_the_watch_and_not_the_job(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any
) -> None:
    with (
        pytest.raises(OutOfReachError, match=r"continues there, and the same command finds it again"),
        launcher_of("echo up; while [ ! -e go ]; do sleep 0.02; done", patience=0.3).launch(folder) as job,
    ):
        for line in job.lines():
            if line == "up":
                slurm.be("away")
    slurm.be_no_more("away")
    assert slurm.states() == ["RUNNING"]
    with launcher_of("echo another").launch(folder) as job:
        (folder / "go").touch()
        lines = list(job.lines())
        assert job.wait() == 0
    assert "up" in lines and "another" not in lines
    assert len(slurm.jobs()) == 1


def test_a_job_that_slurm_refuses_is_an_error_that_says_what_to_do(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any
) -> None:
    message = r"Slurm refuses the job: sbatch: error: invalid partition specified: REFUSED: .*NMT_LAUNCH_TEMPLATE"
    with pytest.raises(ConfigError, match=message), launcher_of("# REFUSED").launch(folder):
        pass


def test_a_machine_without_slurm_is_an_error_that_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    launcher = launcher_for(Settings.load({"NMT_LAUNCHER": "slurm"}), "toy")
    with pytest.raises(ConfigError, match=r"command squeue not found"), launcher.launch(folder):
        pass


def test_a_template_that_is_not_there_is_an_error(folder: Path, slurm: Any) -> None:
    settings = Settings.load({"NMT_LAUNCHER": "slurm", "NMT_LAUNCH_TEMPLATE": "nowhere.sbatch"})
    with (
        pytest.raises(ConfigError, match=r"NMT_LAUNCH_TEMPLATE=nowhere.sbatch: no such file"),
        launcher_for(settings, "toy").launch(folder),
    ):
        pass


def test_a_launcher_that_is_killed_finds_its_job_again(
    launcher_of: Callable[..., SlurmLauncher], folder: Path, slurm: Any, wait_for: Wait
) -> None:
    launcher = launcher_of("echo up; while [ ! -e go ]; do sleep 0.02; done; echo down")
    code = (
        "import sys; from pathlib import Path; from flows.launchers.slurm import SlurmLauncher\n"
        "from flows.settings import Settings\n"
        "with SlurmLauncher(Settings.load(), 'Toy Größe', poll=0.05).launch(Path(sys.argv[1])) as job:\n"
        "    for line in job.lines(): print(line, flush=True)"
    )
    environment = os.environ | {
        "NMT_LAUNCHER": "slurm", "NMT_NODES": "2:4", "NMT_LAUNCH_TEMPLATE": launcher.settings.launch_template
    }  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], env=environment, stdout=subprocess.PIPE) as first:
        assert first.stdout
        while first.stdout.readline() != b"up\n":
            pass
        first.kill()
    assert slurm.states() == ["RUNNING"]
    with launcher.launch(folder) as job:
        (folder / "go").touch()
        lines = [line for line in job.lines() if not line.startswith("Slurm job")]
        assert job.wait() == 0
    assert lines == ["up", "down"], "all of the job's log, since this run has seen none of it"
    assert len(slurm.jobs()) == 1


class TestTheScriptOfThePackage:
    """`train.sbatch` itself, run by bash with another command in place of the training."""

    @pytest.fixture
    def start(self, folder: Path, slurm: Any) -> Callable[[str], None]:
        """Submit the script with another command for each node."""
        launcher = SlurmLauncher(Settings.load({"NMT_LAUNCHER": "slurm", "NMT_NODES": "1:2"}), "toy")

        def start(command: str) -> None:
            submission = shlex.split(launcher.manifest(folder).splitlines()[0].removeprefix("# "))
            of_slurm = submission[: submission.index("env")]
            subprocess.run([*of_slurm, "bash", "-c", command, "--", "RENDEZVOUS"], check=True)

        return start

    def test_the_nodes_are_told_where_to_meet(
        self, start: Callable[[str], None], folder: Path, slurm: Any, wait_for: Wait
    ) -> None:
        start("echo meet at $1")
        wait_for(lambda: slurm.states() == ["COMPLETED"])
        assert (folder / "slurm-1.log").read_text() == "meet at 127.0.0.1:20001\n"

    def test_its_exit_code_comes_from_the_training(
        self, start: Callable[[str], None], slurm: Any, wait_for: Wait
    ) -> None:
        start("exit 7")
        wait_for(lambda: slurm.states() == ["FAILED"])
        assert slurm.jobs()[0]["code"] == "7:0"

    def test_a_request_to_stop_reaches_the_training_and_says_try_again(
        self, start: Callable[[str], None], folder: Path, slurm: Any, wait_for: Wait
    ) -> None:
        start(_TRAIN_UNTIL_TERM)
        wait_for((folder / "up").exists)
        subprocess.run(["scancel", "--signal=TERM", "1"], check=True)
        wait_for(lambda: slurm.states() == ["FAILED"])
        assert slurm.jobs()[0]["code"] == "75:0"

    def test_stopped_before_there_is_anything_to_save_it_says_try_again(
        self, start: Callable[[str], None], folder: Path, slurm: Any, wait_for: Wait
    ) -> None:
        start("touch up; while [ ! -e go ]; do sleep 0.02; done; exit 143")
        wait_for((folder / "up").exists)
        slurm.send("SIGTERM")
        (folder / "go").touch()
        wait_for(lambda: slurm.states() == ["FAILED"])
        assert slurm.jobs()[0]["code"] == "75:0"

    def test_of_a_range_of_nodes_it_gets_the_most(self, start: Callable[[str], None], slurm: Any) -> None:
        start("true")
        assert slurm.jobs()[0]["nodes"] == "2"

    def test_at_the_time_limit_it_goes_back_into_the_queue(
        self, start: Callable[[str], None], folder: Path, slurm: Any, wait_for: Wait
    ) -> None:
        start(_TRAIN_UNTIL_TERM)
        wait_for((folder / "up").exists)
        slurm.send("SIGUSR1")
        wait_for(lambda: slurm.states() == ["COMPLETED"])
        assert (folder / "slurm-1.log").read_text().split() == ["stopped", "went", "on"]


_STOPS_ON_TERM = """bash -c 'trap "touch checkpoint; exit 1" TERM; echo up; while :; do sleep 0.02; done'"""
_TRAIN_UNTIL_TERM = """
if [ -e up ]; then echo went on; echo '{"state": "finished"}' > status.json; exit 0; fi
trap 'echo stopped; echo "{\\"state\\": \\"stopped\\"}" > status.json; exit 1' TERM
touch up; while :; do sleep 0.02; done
"""
