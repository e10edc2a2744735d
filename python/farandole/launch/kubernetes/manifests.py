"""The objects of a job on Kubernetes: a Job of agents, and a controller of its own."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from farandole.launch.processes import tokens
from farandole.version import __version__

CONTROLLER_IMAGE = f"farandole/controller:{__version__}"
# By which the objects of a job are found.
LABEL = "farandole.dev/job"
ROLE = "farandole.dev/role"
# The container of the script.
SCRIPT = "script"
PORT = 7000
SECRETS, TOKENS = "/var/run/secrets/farandole-key", "/var/run/secrets/farandole"
# Exit codes of an agent after which another attempt may help: docs/containers.md. As in deploy/kubernetes.
RETRIED = (75, 137, 143)
# That of a pod which has lost the others, or has left an elastic job.
ELSEWHERE = 75
# A variable of pods of an elastic job: which run of it they belong to.
RUN = "FARANDOLE_RUN"
# Annotations of the Job: ranks in a pod, and the bounds of an elastic job, for `scale`.
SLOTS, LEAST, MOST = "farandole.dev/slots", "farandole.dev/min-np", "farandole.dev/max-np"
# So long a pod of an elastic job waits for others, or for room among them: a day, as waiting is what such jobs do, and
# Kubernetes shows the pods. One that gave up would count as failed, and surplus pods would end a healthy job. Were it
# as long as --start-timeout, pods would give up when the controller is about to begin with fewer ranks.
ELASTIC_TIMEOUT_S = 86400
# In an elastic job so long pods have to leave at a commit, and then to end.
LEAVE_S, END_S = 25, 10
USER = 65532

Manifest = dict[str, Any]


def controller_of(job: str) -> str:
    """What the objects of a job's controller are called."""
    return f"{job}-controller"


def names_of(job: str) -> tuple[tuple[str, str], ...]:
    """Kind and name of all objects of a job, in the order in which they are deleted: pods first, their secrets last."""
    controller = controller_of(job)
    return (("Job", job), ("Deployment", controller), ("Service", controller), ("NetworkPolicy", job), ("Secret", job))


@dataclass(frozen=True)
class JobSpec:
    """What `farandole kubernetes run` asks for.

    Attributes:
        name: of the job, and the beginning of its objects' names.
        image: of the script, with Python, Farandole and the script.
        command: the script and its arguments.
        processes: ranks in all.
        slots: ranks in a pod; divides `processes`.
        least, most: ranks with which an elastic job goes on; `least` 0: it is none, `most` 0: any number.
        gpus: GPUs of each rank.
        cpu, memory: of each rank, as Kubernetes writes them; "": whatever the node has.
        shared_memory: the most that ranks of a pod may exchange by, as Kubernetes writes it.
        environment: variables of the script.
        attempts: how often all pods are started again, where that may help; in an elastic job how many pods may fail.
        start_timeout_s: how long pods wait for each other.
        controller_image: of the controller.
        pull_policy: when images are pulled: "Always", "IfNotPresent", "Never"; "": as Kubernetes does by itself.
        pull_secret: the Secret of the images' registry; "": none.
        service_account: of the script's pods; "": that of the namespace, without a token.
        user: number of the user in the script's pods; None: that of the image.
    """

    name: str
    image: str
    command: tuple[str, ...]
    processes: int
    slots: int = 1
    least: int = 0
    most: int = 0
    gpus: int = 0
    cpu: str = ""
    memory: str = ""
    shared_memory: str = "2Gi"
    environment: tuple[tuple[str, str], ...] = ()
    attempts: int = 0
    start_timeout_s: int = 600
    controller_image: str = CONTROLLER_IMAGE
    pull_policy: str = ""
    pull_secret: str = ""
    service_account: str = ""
    user: int | None = None

    @property
    def pods(self) -> int:
        """How many there are."""
        return self.processes // self.slots

    @property
    def controller(self) -> str:
        """The name of the controller's objects."""
        return controller_of(self.name)


@dataclass(frozen=True)
class Keys:
    """The secrets of a job: the controller's key, its certificate, in PEM, and the token of the job's agents."""

    key: str
    certificate: str
    member: str

    @classmethod
    def new(cls, job: str, certificate_of: Any) -> Keys:
        """New ones. `certificate_of` makes the certificate of a key."""
        key = secrets.token_hex(32)
        return cls(key, certificate_of(key), tokens.member_token(key, job))


def _about(spec: JobSpec, name: str, role: str) -> Manifest:
    return {"name": name, "labels": {"app.kubernetes.io/managed-by": "farandole", LABEL: spec.name, ROLE: role}}


def secret(spec: JobSpec, keys: Keys) -> Manifest:
    """What only the job's pods may know."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _about(spec, spec.name, "secret"),
        "stringData": {
            "key": keys.key,
            "certificate": keys.certificate,
            "token": keys.member,
        },
    }


def _mounted(spec: JobSpec, *names: str) -> Manifest:
    # Files of root, which the group of the pod may read.
    items = [{"key": name, "path": name} for name in names]
    return {"name": "farandole", "secret": {"secretName": spec.name, "defaultMode": 0o400, "items": items}}


def _confined() -> Manifest:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
    }


def _pull_secrets(spec: JobSpec) -> Manifest:
    return {"imagePullSecrets": [{"name": spec.pull_secret}]} if spec.pull_secret else {}


def _image(spec: JobSpec, image: str) -> Manifest:
    return {"image": image, **({"imagePullPolicy": spec.pull_policy} if spec.pull_policy else {})}


def controller(spec: JobSpec) -> list[Manifest]:
    """Its Deployment, which starts it again wherever there is room, and its Service."""
    arguments = ["--listen", f"0.0.0.0:{PORT}", "--key-file", f"{SECRETS}/key", "--tls-pinned"]
    container = {
        "name": "controller",
        **_image(spec, spec.controller_image),
        "args": [*arguments, "--log-level", "info"],
        "ports": [{"name": "agents", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": "agents"}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": _confined(),
        "volumeMounts": [{"name": "farandole", "mountPath": SECRETS, "readOnly": True}],
    }
    selected = {LABEL: spec.name, ROLE: "controller"}
    pod = {
        "metadata": {"labels": selected},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            "securityContext": {
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [_mounted(spec, "key")],
            **_pull_secrets(spec),
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _about(spec, spec.controller, "controller"),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selected},
            "template": pod,
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _about(spec, spec.controller, "controller"),
        "spec": {"selector": selected, "ports": [{"name": "agents", "port": PORT, "targetPort": "agents"}]},
    }
    return [deployment, service]


def network_policy(spec: JobSpec) -> Manifest:
    """Nobody but the job's own pods may speak to its pods."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _about(spec, spec.name, "network"),
        "spec": {
            "podSelector": {"matchLabels": {LABEL: spec.name}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {LABEL: spec.name}}}]}],
        },
    }


def _resources(spec: JobSpec) -> Manifest:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if spec.cpu:
        requests["cpu"] = _times(spec.cpu, spec.slots)
    if spec.memory:
        requests["memory"] = limits["memory"] = _times(spec.memory, spec.slots)
    if spec.gpus:
        limits["nvidia.com/gpu"] = str(spec.gpus * spec.slots)
    return {"requests": requests, "limits": limits}


def _times(quantity: str, count: int) -> str:
    unit = quantity.lstrip("0123456789.")
    number = Decimal(quantity[: len(quantity) - len(unit)]) * count
    return f"{number.normalize():f}{unit}"


def _fixed(spec: JobSpec) -> Manifest:
    """Pods that start and end together."""
    disrupted = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    codes = {"containerName": SCRIPT, "operator": "NotIn", "values": [0, *RETRIED]}
    return {
        "completionMode": "Indexed",
        "completions": spec.pods,
        "parallelism": spec.pods,
        # When one pod fails all do, in any order: an attempt is over with the last of them, and the code of the one
        # that is at fault has been seen by then.
        "backoffLimit": (spec.attempts + 1) * spec.pods - 1,
        "podFailurePolicy": {"rules": [disrupted, {"action": "FailJob", "onExitCodes": codes}]},
    }


def _elastic(spec: JobSpec) -> Manifest:
    """Pods that come and go: without a number of completions the Job is over when one pod has succeeded and all have
    ended, and after the first success none is made any more."""
    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    codes = {"containerName": SCRIPT, "operator": "In", "values": [ELSEWHERE]}
    return {
        "parallelism": spec.pods,
        "backoffLimit": spec.attempts,
        "podFailurePolicy": {"rules": [disrupted, {"action": "Ignore", "onExitCodes": codes}]},
    }


def _annotations(spec: JobSpec) -> dict[str, str]:
    numbers = {SLOTS: spec.slots, LEAST: spec.least, MOST: spec.most}
    return {name: str(number) for name, number in numbers.items() if number}


def job(spec: JobSpec) -> Manifest:
    """The pods of the script. An agent is the first process of each."""
    agent = ["farandole-agent", "--pod", "--job", spec.name, "--controller", f"{spec.controller}:{PORT}"]
    agent += ["--token-file", f"{TOKENS}/token", "--tls-pinned", f"{TOKENS}/certificate"]
    agent += ["--size", str(spec.processes), "--local-size", str(spec.slots), "--prefix-output"]
    variables = {"FARANDOLE_START_TIMEOUT": str(spec.start_timeout_s), "PYTHONUNBUFFERED": "1"}
    environment: list[Manifest] = []
    if spec.least:
        agent += ["--min-size", str(spec.least), *(["--max-size", str(spec.most)] if spec.most else [])]
        agent += ["--leave-seconds", str(LEAVE_S), "--run", f"$({RUN})"]
        # The Job's own: another Job of this name is another run.
        run = {"fieldRef": {"fieldPath": "metadata.labels['controller-uid']"}}
        environment = [{"name": RUN, "valueFrom": run}]
        variables["FARANDOLE_ELASTIC_TIMEOUT"] = str(ELASTIC_TIMEOUT_S)
    agent += ["--", *spec.command]
    variables.update(spec.environment)
    container = {
        "name": SCRIPT,
        **_image(spec, spec.image),
        "command": agent,
        "env": environment + [{"name": name, "value": value} for name, value in variables.items()],
        "resources": _resources(spec),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "farandole", "mountPath": TOKENS, "readOnly": True},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
        ],
    }
    group = USER if spec.user is None else spec.user
    context: Manifest = {
        "fsGroup": group,
        "runAsNonRoot": spec.user != 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if spec.user is not None:
        context.update({"runAsUser": spec.user, "runAsGroup": spec.user})
    account = {"serviceAccountName": spec.service_account} if spec.service_account else {}
    shared_memory = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": spec.shared_memory}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**_about(spec, spec.name, "script"), "annotations": _annotations(spec)},
        "spec": {
            **(_elastic(spec) if spec.least else _fixed(spec)),
            "template": {
                "metadata": {"labels": {LABEL: spec.name, ROLE: "script"}},
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": bool(spec.service_account),
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": LEAVE_S + END_S if spec.least else 30,
                    **account,
                    "securityContext": context,
                    "containers": [container],
                    "volumes": [_mounted(spec, "token", "certificate"), shared_memory],
                    **_pull_secrets(spec),
                },
            },
        },
    }


def objects(spec: JobSpec, keys: Keys) -> list[Manifest]:
    """All of them, the Secret first."""
    return [secret(spec, keys), network_policy(spec), *controller(spec), job(spec)]


def text(manifests: list[Manifest]) -> str:
    """For `kubectl apply -f -`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2) + "\n"
