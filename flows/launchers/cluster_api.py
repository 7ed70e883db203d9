"""Requests of a launcher to Kubernetes, through its official client, which is an optional dependency."""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from flows.launchers.manifests import JobKind, Manifest
from flows.launchers.reach import NoAnswerError
from nmt_core.errors import TRANSIENT_HTTP_STATUS, ConfigError

_TIMEOUT = (10, 60)
"""Seconds to connect, and between two pieces of a response."""
_STARTING = {"ContainerCreating", "PodInitializing"}
"""Reasons for which every container waits before it starts."""
_NAMESPACE_OF_A_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class _ConflictError(Exception):
    """An object of this name exists already."""


@dataclass(frozen=True)
class Pod:
    """Pod, as far as a launcher needs it."""

    name: str
    phase: str
    trouble: str
    """Reason why it does not start or was removed: no capacity, no image, a full disk. Empty if none is known."""

    @property
    def has_ended(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}


class ClusterApi:
    """Jobs of one kind in one namespace.

    Every method raises NoAnswerError while the API server does not answer, and ConfigError when it refuses.
    """

    def __init__(self, kind: JobKind, namespace: str) -> None:
        """Connect as `kubectl` does. An empty namespace means the namespace of the kubeconfig's context.

        Raises:
            ConfigError: The client is not installed, or no cluster is configured.
        """
        self._kind = kind
        kubernetes = _client_library()
        file = os.environ.get("KUBECONFIG")  # the library reads it only once, when it is imported
        where = {"config_file": file} if file else {}
        try:
            kubernetes.config.load_config(**where)
        except kubernetes.config.ConfigException as error:
            raise ConfigError(f"NMT_LAUNCHER: no Kubernetes cluster is configured ({error}): set KUBECONFIG") from None
        self.namespace = namespace or _namespace(kubernetes.config, where)
        self._error = kubernetes.client.ApiException
        self._jobs = kubernetes.client.CustomObjectsApi()
        self._core = kubernetes.client.CoreV1Api()
        self._place = {"group": kind.group, "version": kind.version, "namespace": self.namespace, "plural": kind.plural}

    def create(self, manifest: Manifest) -> bool:
        """Submit a job. Return False if a job of this name exists."""
        try:
            self._ask(lambda: self._jobs.create_namespaced_custom_object(**self._place, body=manifest, **_waiting()))
        except _ConflictError:
            return False
        return True

    def get(self, name: str) -> Manifest | None:
        """Return the current state of a job, or None if it does not exist."""
        manifest: Manifest | None = self._ask(
            lambda: self._jobs.get_namespaced_custom_object(**self._place, name=name, **_waiting()), may_be_missing=True
        )
        return manifest

    def delete(self, name: str) -> None:
        """Delete a job. It is gone when its pods are, after their grace period."""
        self._ask(
            lambda: self._jobs.delete_namespaced_custom_object(
                **self._place, name=name, propagation_policy="Foreground", **_waiting()
            ),
            may_be_missing=True,
        )

    def pods(self, name: str) -> list[Pod]:
        """Return the pods of a job."""
        selector = self._kind.pods.format(name=name)
        answer = self._ask(
            lambda: self._core.list_namespaced_pod(self.namespace, label_selector=selector, **_waiting())
        )
        return [Pod(pod.metadata.name, pod.status.phase or "", _trouble(pod.status)) for pod in answer.items]

    def pod(self, name: str) -> Pod | None:
        """Return one pod, or None if it does not exist."""
        pod = self._ask(lambda: self._core.read_namespaced_pod(name, self.namespace, **_waiting()), may_be_missing=True)
        return Pod(name, pod.status.phase or "", "") if pod else None

    def log(self, pod: str, since_seconds: int | None) -> Iterator[bytes]:
        """Yield the lines of a pod's log as they arrive, each after its timestamp, until the container has ended.

        Args:
            pod: Name of the pod.
            since_seconds: Age in seconds of the first line. None means from the beginning.

        Raises:
            NoAnswerError: The stream broke, or nothing arrived for a minute.
        """
        options = {} if since_seconds is None else {"since_seconds": since_seconds}
        stream = self._ask(
            lambda: self._core.read_namespaced_pod_log(
                pod,
                self.namespace,
                container=self._kind.container,
                follow=True,
                timestamps=True,
                **options,
                **_waiting(_preload_content=False),
            ),
            may_be_missing=True,
        )
        if stream is None:
            return
        try:
            yield from stream
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswerError(str(error)) from None
        finally:
            stream.close()

    def _ask(self, question: Callable[[], Any], *, may_be_missing: bool = False) -> Any:
        """Return the response. If the object may be missing and does not exist, return None."""
        try:
            return question()
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswerError(str(error)) from None
        except self._error as error:
            # If the kind itself is unknown, the response is plain text instead of a Status.
            if error.status == 404 and may_be_missing and "page not found" not in str(error.body):
                return None
            if error.status == 409:
                raise _ConflictError from None
            message = f"{error.status} {error.reason}: {error.body}"
            if error.status in TRANSIENT_HTTP_STATUS:
                raise NoAnswerError(message) from None
            raise ConfigError(
                f"NMT_LAUNCHER: Kubernetes refuses {self._kind.plural}.{self._kind.group} in namespace "
                f"{self.namespace} ({message}): docs/how-to/run-on-kubernetes.md "
                "names the operators and rights that it needs"
            ) from None


def _client_library() -> Any:
    try:
        return importlib.import_module("kubernetes")
    except ImportError as error:
        raise ConfigError(f"NMT_LAUNCHER: {error}: pip install 'nmt-pipeline[k8s]'") from None


def _waiting(**options: Any) -> dict[str, Any]:
    return {"_request_timeout": _TIMEOUT, **options}


def _namespace(config: Any, where: Mapping[str, str]) -> str:
    """Return the namespace that `kubectl` would choose."""
    try:
        context = config.list_kube_config_contexts(**where)[1]["context"]
        return str(context.get("namespace") or "default")
    except config.ConfigException:  # inside a pod
        return _NAMESPACE_OF_A_POD.read_text().strip() if _NAMESPACE_OF_A_POD.exists() else "default"


def _trouble(status: Any) -> str:
    """Return why a pod does not start, or why its node removed it, or an empty text."""
    containers = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    waiting = [container.state.waiting for container in containers if container.state and container.state.waiting]
    reasons = [(state.reason or "", state.message or "") for state in waiting if state.reason not in _STARTING]
    reasons += [(status.reason, status.message or "")] if status.reason else []  # such as Evicted
    reasons += [
        (state.reason or "", state.message or "")
        for state in status.conditions or ()
        if state.type == "PodScheduled" and state.status == "False"
    ]
    return "; ".join(f"{reason} {message}".strip() for reason, message in reasons)
