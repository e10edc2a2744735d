"""``farandole kubernetes``: a job on a cluster, from its start to its end."""

from __future__ import annotations

import argparse
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from farandole.launch.kubernetes import manifests
from farandole.launch.kubernetes.cluster import Cluster, ClusterError, exit_code, why_waits
from farandole.launch.kubernetes.manifests import RETRIED, JobSpec, Keys
from farandole.launch.processes.controller import certificate

# Between two looks at the pods.
LOOK_S = 0.5
# An object's name ends with -controller, and a pod's with its number; both have to be names of DNS.
NAME = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
INTERRUPTED = 130


class UsageError(Exception):
    """The command line is wrong; the text is one sentence."""


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole kubernetes: {sentence}", file=sys.stderr, flush=True)


def _name_of(parsed: argparse.Namespace) -> str:
    name = parsed.name or f"farandole-{int(time.time()) % 10**6:06d}"
    if not re.fullmatch(NAME, name):
        raise UsageError(f"--name must be 1 to 40 characters of a-z, 0-9 and -, the first one of a-z, not {name!r}")
    return name


def _environment_of(pairs: list[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"--env must be NAME=VALUE, not {pair!r}")
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
    for flag, value in (("--cpu", parsed.cpu), ("--memory", parsed.memory)):
        if value and not re.fullmatch(r"[0-9]+(m|[kKMGT]i?)?", value):
            raise UsageError(f"{flag} must be a quantity of Kubernetes, such as 4 or 8Gi, not {value!r}")
    return JobSpec(
        name=_name_of(parsed),
        image=parsed.image,
        command=tuple(command),
        processes=parsed.processes,
        slots=parsed.slots,
        gpus=parsed.gpus,
        cpu=parsed.cpu,
        memory=parsed.memory,
        shared_memory=parsed.shared_memory,
        environment=_environment_of(parsed.env),
        attempts=parsed.attempts,
        start_timeout_s=parsed.start_timeout,
        controller_image=parsed.controller_image,
        pull_policy=parsed.pull,
        service_account=parsed.service_account,
        user=parsed.user,
    )


class Output:
    """What the ranks print, line by line, while pods come and go.

    Args:
        follow: what pods will print, too.
    """

    def __init__(self, cluster: Cluster, follow: bool) -> None:
        self._cluster, self._follow = cluster, follow
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def follow(self, pod: str) -> None:
        """Prints what a pod that runs, or has ended, prints; each once."""
        if pod not in self._threads:
            thread = threading.Thread(target=self._print, args=(pod,), name=f"log of {pod}", daemon=True)
            self._threads[pod] = thread
            thread.start()

    def _print(self, pod: str) -> None:
        try:
            for line in self._cluster.log(pod, self._follow):
                with self._lock:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
        except ClusterError as error:
            say(f"{error}; `farandole kubernetes logs` may have the rest")

    def end(self, seconds: float | None) -> None:
        """Waits for the last lines of pods that have ended; None: as long as they take."""
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(None if end is None else max(end - time.monotonic(), 0.0))


class Run:
    """A job that is watched until it ends.

    Args:
        start_timeout_s: how long pods may take until all have run.
    """

    def __init__(self, cluster: Cluster, spec: JobSpec, start_timeout_s: float) -> None:
        self._cluster, self._spec = cluster, spec
        self._output = Output(cluster, follow=True)
        self._deadline = time.monotonic() + start_timeout_s
        self._start_timeout_s = start_timeout_s
        self._all_ran = False
        self._said = ""

    def watch(self) -> int:
        """The exit code of the job."""
        while True:
            job = self._cluster.job(self._spec.name)
            if job is None:
                say(f"job {self._spec.name} was deleted")
                return 1
            pods = self._cluster.pods(self._spec.name, "script")
            for pod in pods:
                if pod.status.phase in ("Running", "Succeeded", "Failed"):
                    self._output.follow(pod.metadata.name)
            ended = {c.type for c in job.status.conditions or () if c.status == "True"}
            if ended & {"Complete", "Failed"}:
                self._output.end(10.0)
                return self._verdict("Complete" in ended, pods, job)
            if not self._all_ran and not self._starts(pods):
                return 1
            time.sleep(LOOK_S)

    def _starts(self, pods: list[Any]) -> bool:
        """Says what is waited for; False: for too long."""
        running = sum(pod.status.phase != "Pending" for pod in pods)
        self._all_ran = running == self._spec.pods
        waits = [(pod.metadata.name, why) for pod in pods if (why := why_waits(pod))]
        waits += [
            (pod.metadata.name, why)
            for pod in self._cluster.pods(self._spec.name, "controller")
            if (why := why_waits(pod))
        ]
        if not waits and len(pods) < self._spec.pods:
            waits = [("its Job", text) for text in self._cluster.complaints(self._spec.name, "Job")[-1:]]
        sentence = f"{running} of {self._spec.pods} pods run" + "".join(f"; {who}: {why}" for who, why in waits[:3])
        if sentence != self._said:
            self._said = sentence
            say(sentence)
        if self._all_ran or time.monotonic() < self._deadline:
            return True
        say(f"not all pods ran within {self._start_timeout_s:g} s (--start-timeout): ending the job")
        return False

    def _verdict(self, complete: bool, pods: list[Any], job: Any) -> int:
        if complete:
            return 0
        codes = [(pod.metadata.name, code) for pod in pods if (code := exit_code(pod))]
        # Who ends because of others says so by its code.
        causes = [(name, code) for name, code in codes if code not in RETRIED] or codes
        reasons = [f"{c.reason}: {c.message}" for c in job.status.conditions or () if c.type == "Failed"]
        why = f"pod {causes[0][0]} ended with code {causes[0][1]}" if causes else "no pod has an exit code"
        say(f"job {self._spec.name} failed: {why} ({'; '.join(reasons)})")
        return causes[0][1] if causes else 1


def _create(cluster: Cluster, spec: JobSpec) -> None:
    first, *others = manifests.objects(spec, Keys.new(spec.name, certificate))
    owner = {"apiVersion": "v1", "kind": "Secret", "name": spec.name, "uid": cluster.create(first)}
    try:
        for manifest in others:
            manifest["metadata"]["ownerReferences"] = [owner]
            cluster.create(manifest)
    except BaseException:
        cluster.delete(spec.name)
        raise


def _run(parsed: argparse.Namespace) -> int:
    spec = spec_of(parsed)
    cluster = Cluster(parsed.namespace, parsed.context)
    _create(cluster, spec)
    say(f"job {spec.name} in namespace {cluster.namespace}: {spec.pods} pods of {spec.slots}")
    if parsed.detach:
        say(f"`farandole kubernetes logs {spec.name}` shows what it prints, `delete {spec.name}` ends and removes it")
        return 0
    try:
        return Run(cluster, spec, parsed.start_timeout).watch()
    except KeyboardInterrupt:
        say(f"interrupted: deleting job {spec.name}")
        return INTERRUPTED
    finally:
        if not parsed.keep:
            cluster.delete(spec.name)


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
    for pod in cluster.pods(parsed.name, "script"):
        if pod.status.phase != "Pending":
            output.follow(pod.metadata.name)
    # What has been printed comes at once; what will be comes when it will.
    output.end(None if parsed.follow else 600.0)
    return 0


def _status(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    job = _job_of(cluster, parsed.name)
    ended = [c for c in job.status.conditions or () if c.status == "True" and c.type in ("Complete", "Failed")]
    print(f"job {parsed.name}: {ended[0].type.lower() if ended else 'under way'}")
    for pod in cluster.pods(parsed.name, "controller") + cluster.pods(parsed.name, "script"):
        code = exit_code(pod)
        more = f"exit code {code}" if code is not None else why_waits(pod)
        print(f"  {pod.metadata.name}: {pod.status.phase} on {pod.spec.node_name or 'no node'}" + f" {more}".rstrip())
    return 0


def _delete(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    if not cluster.delete(parsed.name):
        _job_of(cluster, parsed.name)
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "render": _render,
    "logs": _logs,
    "status": _status,
    "delete": _delete,
}


def start(parsed: argparse.Namespace) -> int:
    """Does what the command line asks for; returns the exit code."""
    try:
        return ACTIONS[parsed.action](parsed)
    except UsageError as error:
        say(str(error))
        return 2
    except (ClusterError, RuntimeError, OSError) as error:
        say(str(error))
        return 1
