"""``farandole kubernetes``: a job on a cluster, from its start to its end."""

from __future__ import annotations

import argparse
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from farandole.launch.dashboard import commands as dashboard
from farandole.launch.kubernetes import forward, manifests
from farandole.launch.kubernetes.cluster import Cluster, ClusterError, Uids, ended, why_waits
from farandole.launch.kubernetes.manifests import LEAST, MOST, SLOTS, JobSpec, Keys
from farandole.launch.kubernetes.output import AGAIN_S, REST_S, Output, say
from farandole.launch.kubernetes.run import LOOK_S, Run
from farandole.launch.processes import tokens
from farandole.launch.processes.controller import certificate
from farandole.launch.settings.flags import UsageError
from farandole.launch.status import jobs, query, view

# Of an elastic job so many pods may fail, which is what Kubernetes does by itself.
ELASTIC_ATTEMPTS = 6
# An object's name ends with -controller, and a pod's with its number; both have to be names of DNS.
NAME = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
INTERRUPTED = 130
# Conditions of a Job that has ended.
OVER = ("Complete", "Failed")
# Of a controller's answer on its way through the API server.
ASK_S = 10.0


def _name_of(parsed: argparse.Namespace) -> str:
    name = parsed.name or f"farandole-{secrets.token_hex(3)}"
    if not re.fullmatch(NAME, name):
        raise UsageError(f"--name must be 1 to 40 characters of a-z, 0-9 and -, the first one of a-z, not {name!r}")
    return name


def _environment_of(pairs: list[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"--env must be NAME=VALUE, the name of letters, digits and _, not {pair!r}")
        found.append((name, value))
    return tuple(found)


def spec_of(parsed: argparse.Namespace) -> JobSpec:
    """Raises UsageError."""
    command = parsed.command[1:] if parsed.command[:1] == ["--"] else parsed.command
    if not command:
        raise UsageError("give the command that the pods run, after --")
    if not parsed.image:
        raise UsageError("give the image of the script with --image")
    if parsed.processes % parsed.slots:
        raise UsageError(f"-np {parsed.processes} processes cannot be divided into pods of --slots {parsed.slots}")
    least, most = parsed.min_np or 0, parsed.max_np or 0
    if most and not least:
        raise UsageError("--max-np is for elastic jobs: give --min-np, too")
    if least > parsed.processes or most and most < parsed.processes:
        raise UsageError(
            f"--min-np {least}, -np {parsed.processes}"
            + (f", --max-np {most}" if most else "")
            + ": they must not fall"
        )
    number = r"[0-9]+(\.[0-9]+)?"
    size = rf"{number}(k|[MGTPE]|[KMGTPE]i)?"
    for flag, value, form in (
        ("--cpu", parsed.cpu, rf"{number}m?"),
        ("--memory", parsed.memory, size),
        ("--shared-memory", parsed.shared_memory, size),
    ):
        if value and not re.fullmatch(form, value):
            such = "4, 1.5 or 500m" if flag == "--cpu" else "8Gi or 1.5G"
            raise UsageError(f"{flag} must be a quantity of Kubernetes, such as {such}, not {value!r}")
    return JobSpec(
        name=_name_of(parsed),
        image=parsed.image,
        command=tuple(command),
        processes=parsed.processes,
        slots=parsed.slots,
        least=least,
        most=most,
        gpus=parsed.gpus,
        cpu=parsed.cpu,
        memory=parsed.memory,
        shared_memory=parsed.shared_memory,
        environment=_environment_of(parsed.env),
        attempts=(ELASTIC_ATTEMPTS if least else 0) if parsed.attempts is None else parsed.attempts,
        start_timeout_s=parsed.start_timeout,
        controller_image=parsed.controller_image,
        pull_policy=parsed.pull,
        pull_secret=parsed.pull_secret,
        service_account=parsed.service_account,
        user=parsed.user,
    )


class Created:
    """What a run has made of a job, and has to delete again."""

    def __init__(self, cluster: Cluster, spec: JobSpec) -> None:
        self._cluster, self._spec = cluster, spec
        self._uids: Uids = {}

    def make(self) -> None:
        """All objects. The others belong to the first, so that they go with it, whoever deletes it."""
        owner: list[manifests.Manifest] = []
        for manifest in manifests.objects(self._spec, Keys.new(self._spec.name, certificate)):
            manifest["metadata"]["ownerReferences"] = owner
            try:
                uid = self._cluster.create(manifest)
            except ClusterError as error:
                if error.code != 409:
                    raise
                name = self._spec.name
                again = f"`farandole kubernetes delete {name}` removes a job of that name, --name gives another one"
                raise ClusterError(f"{error}; {again}", 409) from error
            self._uids[manifest["kind"], manifest["metadata"]["name"]] = uid
            owner = owner or [{"apiVersion": "v1", "kind": "Secret", "name": self._spec.name, "uid": uid}]

    def delete(self) -> None:
        """What was made, the last thing first, and nothing that somebody else has made since. Says so if that fails."""
        for _ in range(3):
            try:
                self._cluster.delete(dict(reversed(self._uids.items())))
                return
            except ClusterError as error:
                why = str(error)
                time.sleep(AGAIN_S)
        say(f"job {self._spec.name} is still there, `farandole kubernetes delete {self._spec.name}` removes it: {why}")


@contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(parsed: argparse.Namespace) -> int:
    spec = spec_of(parsed)
    cluster = Cluster(parsed.namespace, parsed.context)
    created = Created(cluster, spec)
    keep = False
    with signals_as_interrupts():
        try:
            created.make()
            say(f"job {spec.name} in namespace {cluster.namespace}: {spec.pods} pods of {spec.slots}")
            keep = parsed.keep or parsed.detach
            if parsed.detach:
                say(f"`farandole kubernetes logs {spec.name}` shows what it prints, `delete {spec.name}` ends it")
                return 0
            try:
                return Run(cluster, spec, parsed.start_timeout).watch()
            except ClusterError as error:
                # It may go on well; whoever has the cluster again can look.
                keep = True
                say(f"job {spec.name} cannot be watched any longer, and is not deleted: {error}")
                return 1
        except KeyboardInterrupt:
            say(f"interrupted: deleting job {spec.name}")
            return INTERRUPTED
        finally:
            if not keep:
                created.delete()


def _render(parsed: argparse.Namespace) -> int:
    spec = spec_of(parsed)
    print(manifests.text(manifests.objects(spec, Keys.new(spec.name, certificate))), end="")
    return 0


def _job_of(cluster: Cluster, name: str) -> Any:
    job = cluster.job(name)
    if job is None:
        there = ", ".join(cluster.names()) or "none"
        raise ClusterError(f"there is no job {name!r} in namespace {cluster.namespace}; there are: {there}")
    return job


def _logs(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    _job_of(cluster, parsed.name)
    output = Output(cluster, parsed.follow)
    # Pods come as long as the job goes on.
    while not _print_logs(cluster, parsed.name, output) and parsed.follow and not output.failure:
        time.sleep(LOOK_S)
    output.end(REST_S)
    return 1 if output.failure else 0


def _print_logs(cluster: Cluster, name: str, output: Output) -> bool:
    """Has the lines of all pods printed that there are by now; whether no other one will come."""
    try:
        job, pods = cluster.job(name), cluster.pods(name, "script")
    except ClusterError as error:
        if error.code in (401, 403):
            raise
        return False
    for pod in pods:
        if pod.status.phase != "Pending":
            output.follow(pod.metadata.name, ended(pod) is not None)
    output.forget({pod.metadata.name for pod in pods})
    return job is None or bool(_over(job))


def _over(job: Any) -> str:
    """The condition in which it has ended; "": it goes on."""
    return next((c.type for c in job.status.conditions or () if c.status == "True" and c.type in OVER), "")


def _status(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    job = _job_of(cluster, parsed.name)
    over = _over(job)
    print(f"job {parsed.name}: {over.lower() or 'under way'}")
    for pod in cluster.pods(parsed.name, "controller") + cluster.pods(parsed.name, "script"):
        end = ended(pod)
        more = f"exit code {end.code} {end.why}".rstrip() if end is not None else why_waits(pod)
        print(f"  {pod.metadata.name}: {pod.status.phase} on {pod.spec.node_name or 'no node'}" + f" {more}".rstrip())
    if not over:
        print("\n".join(_ranks(cluster, parsed.name)))
    return 0


def _target(cluster: Cluster, name: str, address: str) -> query.Target:
    """How the controller of a job is asked."""
    held = cluster.secret(name, "key", "certificate")
    if len(held) < 2:
        raise ClusterError(
            f"Secret {name} has no key and certificate of a controller: `farandole kubernetes run` makes it"
        )
    token = tokens.observer_token(held["key"].strip(), name)
    return query.Target(name, address, token=token, certificate=held["certificate"])


def _ranks(cluster: Cluster, name: str) -> list[str]:
    """Who waits for whom, as lines, or why that is not known."""
    with forward.to_controller(cluster, name) as way:
        try:
            return list(view.lines(view.page(_target(cluster, name, way.address).get(ASK_S), ())))
        except query.QueryError as error:
            return [f"who waits for whom is not known: {way.failure or error}"]
        except ClusterError as error:
            return [f"who waits for whom is not known: {error}"]


def _dashboard(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    _job_of(cluster, parsed.name)
    with forward.to_controller(cluster, parsed.name) as way:
        job = jobs.Job(_target(cluster, parsed.name, way.address), None)
        return dashboard.show(parsed, lambda: [_begun(cluster, parsed.name, job)])


def _begun(cluster: Cluster, name: str, job: jobs.Job) -> jobs.Job:
    """The job, once its controller has heard of it: pods take a moment. Says what it waits for."""
    said = False
    while True:
        try:
            job.get()
            return job
        except query.QueryError as error:
            if error.code not in (query.NO_JOB, query.NO_ANSWER) or _over(_job_of(cluster, name)):
                raise
            if error.code == query.NO_JOB and not said:
                said = True
                say(f"job {name}: waits for its first pod, as long as Kubernetes does; `status {name}` says why")
        time.sleep(LOOK_S)


def _scale(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    job = _job_of(cluster, parsed.name)
    if job.spec.completions is not None:
        raise UsageError(f"job {parsed.name} is not elastic: --min-np makes one so")
    slots, least, most = (int((job.metadata.annotations or {}).get(name, 0)) for name in (SLOTS, LEAST, MOST))
    slots = slots or 1
    if parsed.processes % slots:
        raise UsageError(f"-np {parsed.processes} processes cannot be divided into the job's pods of {slots}")
    if parsed.processes < least:
        raise UsageError(f"-np {parsed.processes} is below --min-np {least}, with which job {parsed.name} was started")
    if most and parsed.processes > most:
        raise UsageError(f"-np {parsed.processes} is above --max-np {most}, with which job {parsed.name} was started")
    cluster.scale(parsed.name, parsed.processes // slots)
    return 0


def _delete(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    objects = cluster.objects(parsed.name)
    if not objects:
        _job_of(cluster, parsed.name)
    cluster.delete(objects)
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "render": _render,
    "logs": _logs,
    "scale": _scale,
    "status": _status,
    "dashboard": _dashboard,
    "delete": _delete,
}


def start(parsed: argparse.Namespace) -> int:
    """Does what the command line asks for; returns the exit code."""
    try:
        return ACTIONS[parsed.action](parsed)
    except UsageError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ClusterError, RuntimeError, OSError) as error:
        say(str(error))
        return 1
