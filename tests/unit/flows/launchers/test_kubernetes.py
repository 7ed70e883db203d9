"""Training through an API server of Kubernetes, which is a stand-in (see `kubernetes_stand_in.py`)."""

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.launchers import launcher_for
from flows.launchers.kubernetes import KubernetesLauncher
from flows.launchers.reach import OutOfReachError
from flows.settings import Settings
from nmt_core.errors import ConfigError

KINDS = ("trainjob", "pytorchjob")
Make = Callable[..., KubernetesLauncher]


class InterruptionError(Exception):
    """Error that a test raises in a running job, as Ctrl-C or a cancelled flow would."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of a job."""
    folder = tmp_path / "home" / "train" / "0123456789abcdef.partial"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def launcher_of(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a launcher whose pods run a bash script in the folder of the job, and do not train."""
    monkeypatch.chdir(tmp_path)

    def make(script: str, kind: str = "trainjob", **options: float) -> KubernetesLauncher:
        template = yaml.safe_load((Path(__file__).parents[4] / "infra/k8s" / f"{kind}.yaml").read_text())
        if kind == "trainjob":
            container = template["spec"]["trainer"]
        else:
            container = template["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        container["command"] = ["bash", "-c", script, "--"]
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(template))
        settings = Settings.load({"NMT_LAUNCHER": kind, "NMT_LAUNCH_TEMPLATE": str(tmp_path / "mine.yaml")})
        return KubernetesLauncher(settings, "toy", **({"poll": 0.05, "grace": 10.0} | options))

    return make


def printed(lines: list[str]) -> list[str]:
    """Return the lines that the pods have printed."""
    return [line for line in lines if not re.match(r"(TrainJob|PyTorchJob|Kubernetes) ", line)]


@pytest.mark.parametrize("kind", KINDS)
def test_lines_come_as_they_are_printed_and_then_the_end(
    launcher_of: Make, folder: Path, tmp_path: Path, cluster: Any, kind: str
) -> None:
    seen = []
    script = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo second; printf 'no end of line'"
    with launcher_of(script, kind).launch(folder) as job:
        for line in job.lines():
            seen.append(line)
            if line == "first":
                (tmp_path / "go").touch()
        assert job.wait() == 0
    assert printed(seen) == ["first", "second", "no end of line"]
    (name,) = cluster.jobs
    assert re.fullmatch(r"nmt-toy-01234567-[0-9a-f]{6}", name)
    end = "TrainJob {} is Complete: CompleteByStandIn" if kind == "trainjob" else "PyTorchJob {} is Succeeded: S"
    assert any(line.startswith(end.format(name)) for line in seen)
    assert all("/namespaces/teamspace/" in request for request in cluster.requests)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failing_job_tells_why(launcher_of: Make, folder: Path, cluster: Any, kind: str) -> None:
    with launcher_of("echo no space left >&2; exit 3", kind).launch(folder) as job:
        lines = list(job.lines())
        assert job.wait() == 1
    assert printed(lines) == ["no space left"]
    assert re.search(r"is Failed: FailedByStandIn exit code 3", "\n".join(lines))


WAITING = "while [ ! -e go ]; do sleep 0.02; done; echo done"


@pytest.mark.parametrize(("kind", "section"), [("trainjob", ()), ("pytorchjob", ("runPolicy",))])
def test_a_suspended_job_is_named_with_the_place_that_says_why(
    launcher_of: Make, folder: Path, tmp_path: Path, cluster: Any, kind: str, section: tuple[str, ...]
) -> None:
    cluster.hides_pods = True
    told = []
    with launcher_of(WAITING, kind).launch(folder) as job:
        (name, running), *_ = cluster.jobs.items()
        place = running.job["spec"]
        for key in section:
            place = place.setdefault(key, {})
        place["suspend"] = True
        for line in job.lines():
            told.append(line)
            if "is suspended" in line:
                place["suspend"] = False
                cluster.hides_pods = False
                (tmp_path / "go").touch()
        assert job.wait() == 0
    (held,) = [line for line in told if "is suspended" in line]
    assert f"`kubectl describe {kind}s." in held and f" {name} --namespace teamspace` says why" in held
    assert printed(told) == ["done"]


def test_a_job_without_pods_is_named(launcher_of: Make, folder: Path, tmp_path: Path, cluster: Any) -> None:
    cluster.hides_pods = True
    told = []
    with launcher_of(WAITING, slow=0.2).launch(folder) as job:
        for line in job.lines():
            told.append(line)
            if "has no pods" in line:
                cluster.hides_pods = False
                (tmp_path / "go").touch()
        assert job.wait() == 0
    (held,) = [line for line in told if "has no pods" in line]
    assert "quota" in held and "`kubectl describe trainjobs.trainer.kubeflow.org nmt-toy-" in held


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: disk."},
            r"has lost pod nmt-\S+: Evicted The",
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no image"}}}
                ],
            },
            r"is waiting for pod nmt-\S+: ImagePullBackOff no image",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "again soon"}}}]},
            r"is waiting for pod nmt-\S+: CrashLoopBackOff again soon",
        ),
    ],
    ids=["evicted", "init container", "started again"],
)
def test_what_a_pod_suffers_is_told(
    launcher_of: Make, folder: Path, tmp_path: Path, cluster: Any, status: dict[str, Any], said: str
) -> None:
    required = {"image": "", "imageID": "", "name": "x", "ready": False, "restartCount": 0}
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        container.update(required)
    cluster.pod_status = status
    told = []
    with launcher_of(WAITING).launch(folder) as job:
        for line in job.lines():
            told.append(line)
            if re.search(said, line):
                (tmp_path / "go").touch()
        assert job.wait() == 0
    assert len([line for line in told if re.search(said, line)]) == 1


def test_streams_that_break_lose_no_line_and_repeat_none(launcher_of: Make, folder: Path, cluster: Any) -> None:
    cluster.lines_of_a_stream = 7
    script = "for i in $(seq 30); do echo line $i; echo the same; [ $((i % 5)) = 0 ] && sleep 0.05; done; true"
    with launcher_of(script).launch(folder) as job:
        lines = printed(list(job.lines()))
        assert job.wait() == 0
    assert lines == [text for i in range(1, 31) for text in (f"line {i}", "the same")]
    assert len([request for request in cluster.requests if "sinceSeconds" in request]) > 3


def test_lines_written_at_the_same_moment_are_told_apart(launcher_of: Make, folder: Path, cluster: Any) -> None:
    """The time before a line need not be unique: a log that was written at once has one time for all lines."""
    cluster.lines_of_a_stream = 2
    with launcher_of("sleep 0.3").launch(folder) as job:
        (running,) = cluster.jobs.values()
        moment = "2040-01-01T00:00:00.000000000Z"
        running.lines += [(moment, "a"), (moment, "a"), (moment, "b"), (moment, "a"), (moment, "c")]
        assert printed(list(job.lines())) == ["a", "a", "b", "a", "c"]


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_early_asks_for_a_checkpoint_and_deletes_the_job(
    launcher_of: Make, folder: Path, tmp_path: Path, cluster: Any, kind: str
) -> None:
    script = "trap 'touch checkpoint; exit 75' TERM; echo up; while :; do sleep 0.02; done"
    with pytest.raises(InterruptionError), launcher_of(script, kind).launch(folder) as job:
        for line in job.lines():
            if line == "up":
                raise InterruptionError
    assert (tmp_path / "checkpoint").exists()
    assert not cluster.jobs
    (deletion,) = [request for request in cluster.requests if request.startswith("DELETE")]
    assert "propagationPolicy=Foreground" in deletion


def test_a_job_that_cannot_be_deleted_is_named(
    launcher_of: Make, folder: Path, cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InterruptionError), launcher_of("echo up; sleep 60", grace=0.2).launch(folder) as job:
        for line in job.lines():
            if line == "up":
                cluster.away = True
                raise InterruptionError
    message = r"may still be running: end it with `kubectl delete trainjobs\.\S+ nmt-toy-\S+ --namespace teamspace`"
    assert re.search(message, caplog.text)


def test_the_api_server_may_be_away(launcher_of: Make, folder: Path, tmp_path: Path, cluster: Any) -> None:
    def come_back() -> None:
        cluster.away = False

    cluster.away = True
    threading.Timer(0.3, come_back).start()
    seen = []
    script = "echo up; while [ ! -e go ]; do sleep 0.02; done; echo down"
    with launcher_of(script).launch(folder) as job:
        for line in job.lines():
            seen.append(line)
            if line == "up":
                cluster.away = True
                threading.Timer(0.5, come_back).start()
            if line == "Kubernetes answers again" and "up" in seen:
                (tmp_path / "go").touch()
        assert job.wait() == 0
    assert printed(seen) == ["up", "down"]
    told = [line for line in seen if line.startswith("Kubernetes ")]
    assert len(told) == 4 and re.match(r"Kubernetes does not answer \(503", told[0])
    assert len([request for request in cluster.requests if request.startswith("POST")]) == 1


def test_a_server_that_stays_away_ends_the_watch_and_not_the_job(
    launcher_of: Make, folder: Path, tmp_path: Path, cluster: Any
) -> None:
    launcher = launcher_of("echo up; while [ ! -e go ]; do sleep 0.02; done; echo down", patience=0.3)
    with pytest.raises(OutOfReachError, match="finds it again"), launcher.launch(folder) as job:
        for line in job.lines():
            if line == "up":
                cluster.away = True
    cluster.away = False
    with launcher.launch(folder) as job:
        (tmp_path / "go").touch()
        assert printed(list(job.lines())) == ["up", "down"], "all of the log, since this run has seen none of it"
    assert len([request for request in cluster.requests if request.startswith("POST")]) == 1


def test_a_job_of_the_same_name_that_has_ended_makes_room(launcher_of: Make, folder: Path, cluster: Any) -> None:
    for script, code in (("exit 1", 1), ("true", 0)):
        with launcher_of(script).launch(folder) as job:
            assert job.wait() == code
    assert [request.split()[0] for request in cluster.requests if not request.startswith("GET")] == [
        "POST",
        "DELETE",
        "POST",
    ]


def test_a_job_that_is_deleted_has_failed(launcher_of: Make, folder: Path, cluster: Any) -> None:
    with launcher_of("echo up; sleep 60").launch(folder) as job:
        lines = []
        for line in job.lines():
            lines.append(line)
            if line == "up":
                cluster.delete_job(next(iter(cluster.jobs)))
        assert job.wait() == 1
    assert re.search(r"TrainJob \S+ (is being|was) deleted by another program", "\n".join(lines))


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (403, "trainjobs is forbidden", r"403 Forbidden: .*trainjobs is forbidden"),
        (404, "namespaces not found", r"404 Not Found: .*namespaces not found"),
        (422, "spec.trainer: wrong", r"422 .*spec\.trainer: wrong"),
    ],
)
def test_a_refusal_is_an_error_that_says_why(
    launcher_of: Make, folder: Path, cluster: Any, status: int, body: str, message: str
) -> None:
    cluster.refusal = (status, body)
    expected = rf"Kubernetes refuses trainjobs\.trainer\.kubeflow\.org in namespace teamspace \({message}"
    with pytest.raises(ConfigError, match=expected), launcher_of("true").launch(folder):
        pass


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    launcher = launcher_for(Settings.load({"NMT_LAUNCHER": "trainjob"}), "toy")
    with pytest.raises(ConfigError, match=r"pip install 'nmt-pipeline\[k8s\]'"), launcher.launch(folder):
        pass


def test_a_machine_without_a_kubeconfig_is_an_error(
    folder: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    launcher = launcher_for(Settings.load({"NMT_LAUNCHER": "pytorchjob"}), "toy")
    with pytest.raises(ConfigError, match=r"no Kubernetes cluster is configured .*: set KUBECONFIG"):
        launcher.launch(folder).__enter__()
