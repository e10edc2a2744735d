"""What is asked of a Kubernetes cluster, by its own Python client."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

from farandole.launch.kubernetes.manifests import LABEL, ROLE, Manifest

# Of one question; what it takes to answer is milliseconds.
ANSWER_S = 30
# Words in which a container says that it waits for what may never come.
STARTING = ("ContainerCreating", "PodInitializing")


class ClusterError(Exception):
    """The cluster does not do what it was asked for; the text is one sentence."""


def _client() -> Any:
    try:
        return importlib.import_module("kubernetes")
    except ImportError:
        raise ClusterError(
            "the Python client of Kubernetes is missing; pip install 'farandole[kubernetes]' installs it"
        ) from None


def sentence_of(error: Any) -> str:
    """What the API server says, in one line."""
    try:
        said = json.loads(error.body)["message"]
    except (AttributeError, KeyError, TypeError, ValueError):
        said = str(getattr(error, "reason", None) or error)
    return " ".join(said.split())


class Cluster:
    """One namespace of the cluster that the user's configuration names.

    Args:
        namespace: "": that of the configuration, or `default`.
        context: of the configuration; "": the current one.

    Raises:
        ClusterError: no client, or no configuration.
    """

    def __init__(self, namespace: str = "", context: str = "") -> None:
        self._kubernetes = _client()
        config = self._kubernetes.config
        try:
            config.load_kube_config(context=context or None)
            _, active = config.list_kube_config_contexts()
            found = active["context"].get("namespace", "") if not context else ""
        except config.ConfigException as outside:
            # In a pod of the cluster.
            try:
                config.load_incluster_config()
            except config.ConfigException:
                raise ClusterError(f"no cluster is configured: {' '.join(str(outside).split())}") from None
            found = ""
        self.namespace = namespace or found or "default"
        client = self._kubernetes.client
        self._core, self._batch, self._apps = client.CoreV1Api(), client.BatchV1Api(), client.AppsV1Api()
        self._networking = client.NetworkingV1Api()
        self._errors = (client.ApiException, importlib.import_module("urllib3").exceptions.HTTPError)

    def _ask(self, question: Any, *arguments: Any, **more: Any) -> Any:
        try:
            return question(*arguments, _request_timeout=ANSWER_S, **more)
        except self._errors as error:
            raise ClusterError(sentence_of(error)) from error

    def create(self, manifest: Manifest) -> str:
        """Makes an object as it stands there; returns its uid. Raises ClusterError with what and why."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        makers = {
            "Deployment": self._apps.create_namespaced_deployment,
            "Job": self._batch.create_namespaced_job,
            "NetworkPolicy": self._networking.create_namespaced_network_policy,
            "Secret": self._core.create_namespaced_secret,
            "Service": self._core.create_namespaced_service,
        }
        try:
            return self._ask(makers[kind], self.namespace, manifest).metadata.uid
        except ClusterError as error:
            raise ClusterError(f"{kind} {name} cannot be made in namespace {self.namespace}: {error}") from error

    def delete(self, name: str) -> bool:
        """Deletes a job's Secret, and with it all that belongs to it. Whether there was one."""
        options = self._kubernetes.client.V1DeleteOptions(propagation_policy="Background")
        found = self._ask(self._core.list_namespaced_secret, self.namespace, label_selector=f"{LABEL}={name}").items
        for secret in found:
            self._ask(self._core.delete_namespaced_secret, secret.metadata.name, self.namespace, body=options)
        return bool(found)

    def job(self, name: str) -> Any:
        """The Job; None: there is none."""
        found = self._ask(self._batch.list_namespaced_job, self.namespace, label_selector=f"{LABEL}={name}").items
        return found[0] if found else None

    def names(self) -> list[str]:
        """Of all jobs of ours in the namespace."""
        found = self._ask(self._batch.list_namespaced_job, self.namespace, label_selector=LABEL).items
        return [job.metadata.name for job in found]

    def pods(self, name: str, role: str) -> list[Any]:
        """Pods of a job, the older ones first."""
        selector = f"{LABEL}={name},{ROLE}={role}"
        found = self._ask(self._core.list_namespaced_pod, self.namespace, label_selector=selector).items
        return sorted(found, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))

    def complaints(self, name: str, kind: str) -> list[str]:
        """What the cluster has said against an object, the last thing last: a quota that is used up, for one."""
        selector = f"involvedObject.kind={kind},involvedObject.name={name},type=Warning"
        found = self._ask(self._core.list_namespaced_event, self.namespace, field_selector=selector).items
        return [" ".join((event.message or "").split()) for event in found]

    def log(self, pod: str, follow: bool) -> Iterator[bytes]:
        """What a pod has printed and, with `follow`, will print, in lines."""
        try:
            answer = self._core.read_namespaced_pod_log(pod, self.namespace, follow=follow, _preload_content=False)
            rest = b""
            for block in answer.stream(1 << 16, decode_content=False):
                *lines, rest = (rest + block).split(b"\n")
                yield from (line + b"\n" for line in lines)
            if rest:
                yield rest
        except self._errors as error:
            raise ClusterError(f"pod {pod}: {sentence_of(error)}") from error

    def output_of(self, pod: str, *command: str) -> str:
        """Runs a command in a pod."""
        stream = importlib.import_module("kubernetes.stream")
        try:
            return stream.stream(
                self._core.connect_get_namespaced_pod_exec,
                pod,
                self.namespace,
                command=list(command),
                stdout=True,
                stderr=True,
                _request_timeout=ANSWER_S,
            )
        except self._errors as error:
            raise ClusterError(f"pod {pod}: {sentence_of(error)}") from error


def why_waits(pod: Any) -> str:
    """Why a pod does not run yet; "" if it does, or if nothing is known but that it starts."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"{condition.reason}: {' '.join((condition.message or '').split())}"
    for container in pod.status.container_statuses or ():
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in STARTING:
            said = " ".join((waiting.message or "").split())
            return f"{waiting.reason}: {said}" if said else waiting.reason
    return ""


def exit_code(pod: Any) -> int | None:
    """Of a pod's script; None: it has none yet, or never began."""
    for container in pod.status.container_statuses or ():
        if container.state.terminated is not None:
            return container.state.terminated.exit_code
    return None
