"""Training as a Kubernetes job: a TrainJob or a PyTorchJob is created, watched, and deleted.

The machine that runs the flow needs a kubeconfig, or is a pod with rights of its own. NMT_HOME must be on a volume that
it shares with the pods of the job, under the same path. The name of the job is derived from its folder, so a flow that
starts again finds the running job.
"""

import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from flows.launchers.cluster_api import ClusterApi
from flows.launchers.cluster_job import cluster_job, look_anew, template_of
from flows.launchers.manifests import KINDS, JobKind, Manifest, manifest_of
from flows.launchers.pod_logs import PodLogs
from flows.launchers.reach import NoAnswerError, OutOfReachError, Pace, Reach
from flows.settings import Settings
from nmt_core.errors import ConfigError
from nmt_core.execution.torchrun import Launched, Notice

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KubernetesLauncher:
    """Launcher that starts training as a job of the kind in the settings."""

    settings: Settings
    recipe: str
    poll: float = 3.0
    """Seconds between two requests to the API server while the job changes, and up to 8 times that otherwise."""
    grace: float = 120.0
    """Seconds to wait for a deleted job to disappear. The template sets the grace period of its pods."""
    patience: float = 1_800.0
    """Seconds without an answer of the API server before giving up."""
    slow: float = 60.0
    """Seconds without a pod after which the user is told."""

    @contextlib.contextmanager
    def launch(self, folder: Path) -> Iterator[Launched]:
        """Launch training as `Launcher.launch` does.

        Raises:
            ConfigError: The client is not installed, the template is wrong, or Kubernetes refuses the job.
            OutOfReachError: The API server has not answered for too long.
        """
        manifest, kind = self._manifest(folder), KINDS[self.settings.launcher]
        api = ClusterApi(kind, manifest["metadata"].get("namespace", ""))
        messages: deque[str] = deque()
        reach = Reach("Kubernetes", self.patience, messages.append)
        launched = _KubernetesJob(
            kind, manifest["metadata"]["name"], api, reach, messages, self.poll, self.slow, PodLogs(api, self.poll)
        )
        try:
            launched.start(manifest)
            yield launched
        except (OutOfReachError, ConfigError):  # it cannot be deleted either
            raise
        except BaseException:
            launched.cancel(self.grace)
            raise
        finally:
            launched.logs.stop()
        look_anew(folder)

    def manifest(self, folder: Path) -> str:
        """Return the manifest for a folder as YAML."""
        return yaml.safe_dump(self._manifest(folder), sort_keys=False, width=120)

    def _manifest(self, folder: Path) -> Manifest:
        job = cluster_job(self.settings, self.recipe, folder)
        return manifest_of(KINDS[self.settings.launcher], job, template_of(self.settings))


@dataclass
class _KubernetesJob:
    """Running job, which implements `Launched`."""

    kind: JobKind
    name: str
    api: ClusterApi
    reach: Reach
    said: deque[str]
    """Messages about Kubernetes that the user has not seen yet."""
    poll: float
    slow: float
    logs: PodLogs
    _is_good: bool | None = None
    """True if the job succeeded, False if it failed, None if it has not ended."""
    _seen: frozenset[str] = frozenset()
    _no_pods_since: float = field(default_factory=time.monotonic)

    @property
    def _place(self) -> str:
        """Arguments that name the job to kubectl."""
        return f"{self.kind.plural}.{self.kind.group} {self.name} --namespace {self.api.namespace}"

    def start(self, manifest: Manifest) -> None:
        """Create the job, or find that it runs already. A job of the same name that has ended is deleted first."""
        while True:
            existing = self.reach.insist(lambda: self.api.get(self.name), self.poll)
            if existing is None:
                if self.reach.ask(lambda: self.api.create(manifest)):
                    return
            elif "deletionTimestamp" not in existing["metadata"]:
                if self._how_it_ended(existing) is None:
                    return
                self.reach.insist(lambda: self.api.delete(self.name), self.poll)
            time.sleep(self.poll)  # a request that failed here may have succeeded in Kubernetes: check again

    def lines(self) -> Iterator[str]:
        """Yield lines as `Launched.lines` does."""
        pace = Pace(self.poll)
        while self._is_good is None:
            if pace.is_due():
                self.reach.ask(lambda: self._look(pace))
                yield from self._tell()
            line = self.logs.next_line(min(self.poll, 1.0))
            if line is not None:
                yield line
        yield from self.logs.rest(timeout=10 * self.poll)
        yield from self._tell()

    def wait(self) -> int:
        """Wait as `Launched.wait` does."""
        while self._is_good is None:  # the caller has not read all lines
            for _ in self.lines():
                pass
        return 0 if self._is_good else 1

    def cancel(self, grace: float) -> None:
        """Delete the job, and wait until its pods are gone. SIGTERM makes each of them write its checkpoint."""
        deadline, is_sent = time.monotonic() + grace, False
        while time.monotonic() < deadline:
            with contextlib.suppress(NoAnswerError, ConfigError):
                if self.api.get(self.name) is None:
                    return
                if not is_sent:
                    self.api.delete(self.name)
                    is_sent = True
            time.sleep(self.poll)
        _log.warning(
            "%s %s may still be running: end it with `kubectl delete %s`", self.kind.kind, self.name, self._place
        )

    def _look(self, pace: Pace) -> None:
        """Check the job and its pods."""
        job = self.api.get(self.name)
        news = frozenset(_conditions(job)) if job else frozenset({"was deleted by another program"})
        pods = self.api.pods(self.name)
        for pod in pods:
            if pod.phase not in {"", "Pending"}:
                self.logs.follow(pod.name)
            if pod.trouble:
                news |= {f"{'has lost' if pod.phase == 'Failed' else 'is waiting for'} pod {pod.name}: {pod.trouble}"}
        if job and not pods:
            news |= self._why_no_pods(job)
        else:
            self._no_pods_since = time.monotonic()
        if news - self._seen:
            self.said.extend(f"{self.kind.kind} {self.name} {condition}" for condition in sorted(news - self._seen))
            self._seen |= news
            pace.hurry()
        self._is_good = self._how_it_ended(job) if job else False

    def _why_no_pods(self, job: Manifest) -> frozenset[str]:
        """Return what the user should know about a job without pods. Its events tell more, but need further rights."""
        look = f"`kubectl describe {self._place}` says why"
        if self.kind.is_suspended(job):
            return frozenset({f"is suspended, by a queue or by a person, and waits to be resumed: {look}"})
        if time.monotonic() - self._no_pods_since > self.slow:
            return frozenset({f"has no pods yet, as when a quota is used up: {look}"})
        return frozenset()

    def _how_it_ended(self, job: Manifest) -> bool | None:
        """Return True if the job succeeded, False if it failed, None if it has not ended."""
        for condition in job.get("status", {}).get("conditions", ()):
            if condition["status"] == "True" and condition["type"] in self.kind.is_good:
                return self.kind.is_good[condition["type"]]
        return None

    def _tell(self) -> Iterator[str]:
        while self.said:
            yield Notice(self.said.popleft())


def _conditions(job: Manifest) -> Iterator[str]:
    """Yield the conditions of a job as text."""
    if "deletionTimestamp" in job["metadata"]:
        yield "is being deleted by another program"
    for condition in job.get("status", {}).get("conditions", ()):
        if condition["status"] == "True":
            reason = " ".join(filter(None, (condition.get("reason"), condition.get("message"))))
            yield f"is {condition['type']}" + (f": {reason}" if reason else "")
