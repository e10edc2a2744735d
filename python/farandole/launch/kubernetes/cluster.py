"""What is asked of a Kubernetes cluster, by its own Python client."""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from farandole.launch.kubernetes.manifests import LABEL, ROLE, SCRIPT, Manifest, names_of

# Of objects, by kind and name.
Uids = dict[tuple[str, str], str]

# Of one question; what it takes to answer is milliseconds.
ANSWER_S = 30
# A stream of lines in which nothing comes for so long is opened again: its other end may be gone.
SILENT_S = 300
# A line is cut here; nothing that scripts print for people is longer.
LINE_BYTES = 64 << 10
# In a pod: its own namespace.
OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
# On pods of an Indexed Job.
INDEX = "batch.kubernetes.io/job-completion-index"
# Words in which a container says that it waits for what may never come.
STARTING = ("ContainerCreating", "PodInitializing")


class ClusterError(Exception):
    """The cluster does not do what it was asked for; the text is one sentence. `code` is the API server's, 0 if there
    was no answer."""

    def __init__(self, sentence: str, code: int = 0) -> None:
        super().__init__(sentence)
        self.code = code


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
        self.namespace = namespace or self._configure(context) or "default"
        client = self._kubernetes.client
        self._core, self._batch, self._apps = client.CoreV1Api(), client.BatchV1Api(), client.AppsV1Api()
        self._networking = client.NetworkingV1Api()
        self._errors = (client.ApiException, importlib.import_module("urllib3").exceptions.HTTPError)

    def _configure(self, context: str) -> str:
        """Loads the configuration; the namespace that it names."""
        config = self._kubernetes.config
        try:
            config.load_kube_config(context=context or None)
            contexts, active = config.list_kube_config_contexts()
        except config.ConfigException as error:
            outside = " ".join(str(error).split())
            # In a pod of the cluster; whoever names a context does not mean that.
            if context or "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise ClusterError(f"no cluster is configured: {outside}") from None
            try:
                config.load_incluster_config()
            except config.ConfigException:
                raise ClusterError(f"no cluster is configured: {outside}") from None
            return OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.exists() else ""
        (found,) = [each for each in contexts if each["name"] == context] if context else [active]
        return found["context"].get("namespace", "")

    def _ask(self, question: Any, *arguments: Any, **more: Any) -> Any:
        try:
            return question(*arguments, _request_timeout=ANSWER_S, **more)
        except self._errors as error:
            raise ClusterError(sentence_of(error), getattr(error, "status", None) or 0) from error

    def create(self, manifest: Manifest) -> str:
        """Makes an object as it stands there; returns its uid. Raises ClusterError with what and why."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            return self._ask(self._calls(kind)[0], self.namespace, manifest).metadata.uid
        except ClusterError as error:
            sentence = f"{kind} {name} cannot be made in namespace {self.namespace}: {error}"
            raise ClusterError(sentence, error.code) from error

    def objects(self, job: str) -> Uids:
        """Those of a job that there are."""
        found = {}
        for kind, name in names_of(job):
            try:
                about = self._ask(self._calls(kind)[1], name, self.namespace).metadata
            except ClusterError as error:
                if error.code == 404:
                    continue
                raise
            # Somebody else's may have such a name.
            if (about.labels or {}).get(LABEL) == job:
                found[kind, name] = about.uid
        return found

    def delete(self, objects: Uids) -> None:
        """Deletes these, and none that have their names by now. Raises ClusterError after all have been tried."""
        client, failed = self._kubernetes.client, None
        for (kind, name), uid in objects.items():
            conditions = client.V1Preconditions(uid=uid)
            options = client.V1DeleteOptions(propagation_policy="Background", preconditions=conditions)
            try:
                # Releases answer with a Status or with the object: neither is read.
                self._ask(self._calls(kind)[2], name, self.namespace, body=options, _preload_content=False)
            except ClusterError as error:
                # Somebody else was quicker, or it is a new one.
                if error.code not in (404, 409):
                    failed = error
        if failed is not None:
            raise failed

    def _calls(self, kind: str) -> tuple[Any, Any, Any]:
        """Those that make, read and delete an object."""
        apis = {"Deployment": self._apps, "Job": self._batch, "NetworkPolicy": self._networking}
        api = apis.get(kind, self._core)
        snake = "network_policy" if kind == "NetworkPolicy" else kind.lower()
        return tuple(getattr(api, f"{verb}_namespaced_{snake}") for verb in ("create", "read", "delete"))

    def job(self, name: str) -> Any:
        """The Job; None: there is none."""
        found = self._ask(self._batch.list_namespaced_job, self.namespace, label_selector=f"{LABEL}={name}").items
        return found[0] if found else None

    def scale(self, name: str, pods: int) -> None:
        """Changes how many pods a Job has at a time."""
        self._ask(self._batch.patch_namespaced_job, name, self.namespace, {"spec": {"parallelism": pods}})

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

    def secret(self, job: str, *names: str) -> dict[str, str]:
        """What the Secret of a job holds, of these names."""
        data = self._ask(self._core.read_namespaced_secret, job, self.namespace).data or {}
        return {name: base64.b64decode(data[name]).decode(errors="replace") for name in names if name in data}

    def connect(self, pod: str, port: int) -> Any:
        """A socket that is connected to a port of a pod, by way of the API server. Any thread."""
        # While it connects it puts something of its own into the place of the API client's calls.
        api = self._kubernetes.client.CoreV1Api(self._kubernetes.client.ApiClient())
        forward = importlib.import_module("kubernetes.stream").portforward
        try:
            found = forward(api.connect_get_namespaced_pod_portforward, pod, self.namespace, ports=str(port))
        except self._errors as error:
            raise ClusterError(f"no way to port {port} of pod {pod}: {sentence_of(error)}") from error
        return found.socket(port)

    def log(self, pod: str, follow: bool, since_s: int | None) -> Iterator[tuple[str, bytes]]:
        """What a pod's script has printed and, with `follow`, will print: lines, each with the time at which it was
        printed, which sorts as text. A line without an end may be cut.

        Args:
            since_s: the last so many seconds alone; None: all.
        """
        more = {} if since_s is None else {"since_seconds": since_s}
        try:
            answer = self._core.read_namespaced_pod_log(
                pod,
                self.namespace,
                container=SCRIPT,
                follow=follow,
                timestamps=True,
                _preload_content=False,
                _request_timeout=(ANSWER_S, SILENT_S),
                **more,
            )
            lines = Lines()
            for block in answer.stream(1 << 16, decode_content=False):
                yield from lines.take(block)
            yield from lines.take(b"\n")
        except self._errors as error:
            code = getattr(error, "status", None) or 0
            raise ClusterError(f"pod {pod}: {sentence_of(error)}", code) from error


class Lines:
    """Lines of a log in which each begins with its time. What has none is not the script's but says what went wrong
    with the log, and is left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._when = ""  # of a line whose beginning was given

    def take(self, block: bytes) -> Iterator[tuple[str, bytes]]:
        """The lines that have come to their end with it; of one that is too long the beginning."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            when, text = (self._when, line) if self._when else timed(line)
            self._when = ""
            if when:
                yield when, text + b"\n"
        if len(self._rest) > LINE_BYTES:
            when, text = (self._when, self._rest) if self._when else timed(self._rest)
            self._when, self._rest = when, b""
            if when:
                yield when, text


def timed(line: bytes) -> tuple[str, bytes]:
    """The time at which a line was printed, as text that sorts, and the line; "": it has none."""
    found = re.match(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|[-+]\d\d:\d\d) ", line)
    if not found:
        return "", b""
    return f"{found[1].decode()}.{(found[2] or b'').decode()}", line[found.end() :]


def index_of(pod: Any) -> str:
    """Which of the Job's pods it is, or replaces."""
    return (pod.metadata.annotations or {}).get(INDEX) or (pod.metadata.labels or {}).get(INDEX, pod.metadata.name)


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


class End(NamedTuple):
    """How a pod's script ended: when, in seconds since 1970, with which exit code, and what Kubernetes says of it."""

    when: float
    code: int
    why: str


def ended(pod: Any) -> End | None:
    """None: it has not, or never began."""
    for container in pod.status.container_statuses or ():
        if container.name == SCRIPT and container.state.terminated is not None:
            end = container.state.terminated
            said = "out of memory (--memory)" if end.reason == "OOMKilled" else " ".join((end.message or "").split())
            # Of a container that was lost with its node nobody knows when.
            when = end.finished_at.timestamp() if end.finished_at else float("inf")
            return End(when, end.exit_code, said)
    return None
