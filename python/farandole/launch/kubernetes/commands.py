"""``farandole kubernetes``: a job on a cluster, from its start to its end."""

from __future__ import annotations

import argparse
import re
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from farandole.launch.kubernetes import manifests
from farandole.launch.kubernetes.cluster import Cluster, ClusterError, End, Uids, ended, index_of, why_waits
from farandole.launch.kubernetes.manifests import ELSEWHERE, RETRIED, SLOTS, JobSpec, Keys
from farandole.launch.processes.controller import certificate
from farandole.launch.settings.flags import UsageError

# Between two looks at the pods, while they start and when they run.
START_LOOK_S, LOOK_S = 0.5, 2.0
# Without an answer of the cluster for so long nothing more is known of a job.
ABSENT_S = 300.0
# Between two attempts to read a pod's lines.
AGAIN_S = 1.0
# Last lines may come for so long after the last one that has come.
REST_S = 30.0
# Of so many pods lines are shown: each is a connection.
FOLLOWED_MAX = 256
# Of an elastic job so many pods may fail, which is what Kubernetes does by itself.
ELASTIC_ATTEMPTS = 6
# An object's name ends with -controller, and a pod's with its number; both have to be names of DNS.
NAME = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
INTERRUPTED = 130


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole kubernetes: {sentence}", file=sys.stderr, flush=True)


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


class Output:
    """What the ranks print, line by line, while pods come and go.

    Args:
        follow: what pods will print, too.
    """

    def __init__(self, cluster: Cluster, follow: bool) -> None:
        self._cluster, self._follow = cluster, follow
        self._threads: dict[str, threading.Thread] = {}
        self._over: set[str] = set()
        self._lock = threading.Lock()
        self._last_line = time.monotonic()
        self.failure = ""  # stdout takes no more

    def follow(self, pod: str, over: bool) -> None:
        """Prints what a pod that runs, or is over, prints; each once."""
        if over:
            self._over.add(pod)
        if pod in self._threads or len(self._threads) > FOLLOWED_MAX:
            return
        if len(self._threads) == FOLLOWED_MAX:
            say(f"the lines of {FOLLOWED_MAX} pods are shown, `kubectl logs` has those of the others")
        thread = threading.Thread(target=self._print, args=(pod,), name=f"log of {pod}", daemon=True)
        self._threads[pod] = thread
        thread.start()

    def _print(self, pod: str) -> None:
        last, told = "", False
        opened: float | None = None
        while not self.failure:
            # What was there when a pod was over is all that there is.
            all_of_it = pod in self._over or not self._follow
            since = None if opened is None else int(time.monotonic() - opened) + 5
            opened = time.monotonic()
            try:
                seen = last
                for when, line in self._cluster.log(pod, self._follow, since):
                    if when > seen:
                        last = when
                        self._write(line)
                if all_of_it:
                    return
                if last and not told and pod not in self._over:
                    told = True
                    say(f"the lines of pod {pod} broke off, some may be missing: its log is too long, or no answer")
            except ClusterError as error:
                # A pod that is gone, or over, has no more lines; any other answer may be better the next time.
                if error.code == 403:
                    return say(str(error))
                if error.code == 404 or (error.code == 400 and all_of_it):
                    return None
            except OSError as error:
                self.failure = f"cannot write to stdout: {error.strerror}"
            time.sleep(AGAIN_S)

    def _write(self, line: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            self._last_line = time.monotonic()

    def end(self, seconds: float | None) -> None:
        """Waits for the last lines of pods that are over, until none has come for so long; None: without a bound."""
        if seconds is not None:
            # Also those that are gone: each is read to its end once more.
            self._over.update(self._threads)
        for pod, thread in self._threads.items():
            self._last_line = max(self._last_line, time.monotonic())
            while thread.is_alive():
                thread.join(0.2)
                if seconds is not None and time.monotonic() - self._last_line > seconds:
                    say(f"the last lines of pod {pod} have not come within {seconds:g} s")
                    break


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
        # Exit codes, by pod, and when; pods may go before the Job has ended.
        self._ended: dict[str, End] = {}

    def watch(self) -> int:
        """The exit code of the job.

        Raises:
            ClusterError: it cannot be watched any longer.
        """
        answered, absent = time.monotonic(), ""
        while True:
            try:
                code = self._look()
                answered, absent = time.monotonic(), ""
            except ClusterError as error:
                if error.code in (401, 403) or time.monotonic() - answered > ABSENT_S:
                    raise
                if not absent:
                    absent = str(error)
                    say(f"the cluster does not answer, asking on: {absent}")
                code = None
            if code is not None:
                return code
            if self._output.failure:
                say(f"{self._output.failure}: ending the job")
                return 1
            time.sleep(LOOK_S if self._all_ran else START_LOOK_S)

    def _look(self) -> int | None:
        """The exit code, if there is one."""
        job = self._cluster.job(self._spec.name)
        if job is None:
            say(f"job {self._spec.name} was deleted")
            return 1
        pods = self._cluster.pods(self._spec.name, "script")
        for pod in pods:
            if (end := ended(pod)) is not None:
                self._ended[pod.metadata.name] = end
            if pod.status.phase in ("Running", "Succeeded", "Failed"):
                self._output.follow(pod.metadata.name, end is not None)
        states = {c.type for c in job.status.conditions or () if c.status == "True"}
        if states & {"Complete", "Failed"}:
            for pod in pods:
                self._output.follow(pod.metadata.name, True)
            self._output.end(REST_S)
            return self._verdict("Complete" in states, job)
        return None if self._all_ran or self._starts(pods) else 1

    def _starts(self, pods: list[Any]) -> bool:
        """Says what is waited for; False: for too long."""
        running = len({index_of(pod) for pod in pods if pod.status.phase in ("Running", "Succeeded")})
        controllers = self._cluster.pods(self._spec.name, "controller")
        late = time.monotonic() >= self._deadline
        enough = self._spec.least if self._spec.least and late else self._spec.processes
        led = any(pod.status.phase == "Running" for pod in controllers)
        self._all_ran = running * self._spec.slots >= enough and led
        starting = [*controllers, *pods]
        waits = [(pod.metadata.name, why) for pod in starting if (why := why_waits(pod))]
        if not waits and len(pods) < self._spec.pods:
            waits = [("its Job", text) for text in self._cluster.complaints(self._spec.name, "Job")[-1:]]
        sentence = f"{running} of {self._spec.pods} pods run"
        # Each reason once.
        for why in dict.fromkeys(why for _, why in waits):
            who = [name for name, each in waits if each == why]
            sentence += f"; {who[0]}" + (f" and {len(who) - 1} more" if len(who) > 1 else "") + f": {why}"
        if sentence != self._said:
            self._said = sentence
            say(sentence)
        if self._all_ran or not late:
            return True
        whole = "enough" if self._spec.least else "all"
        say(f"not {whole} pods ran within {self._start_timeout_s:g} s (--start-timeout): ending the job")
        return False

    def _verdict(self, complete: bool, job: Any) -> int:
        if complete:
            return 0
        failed = {name: end for name, end in self._ended.items() if end.code}
        if not failed:
            why = "; ".join(f"{c.reason}: {c.message}" for c in job.status.conditions or () if c.type == "Failed")
            say(f"job {self._spec.name} failed: {why}")
            return 1
        # A script's own codes, then those of ranks that were killed; who ends because of others says so by its code.
        name = min(failed, key=lambda n: (failed[n].code in RETRIED, failed[n].code == ELSEWHERE, failed[n].when))
        code, why = failed[name].code, f"pod {name} ended with code {failed[name].code}"
        why += f": {failed[name].why}" if failed[name].why else ""
        say(f"job {self._spec.name} failed: {why}")
        return code


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
    for pod in cluster.pods(parsed.name, "script"):
        if pod.status.phase != "Pending":
            output.follow(pod.metadata.name, ended(pod) is not None)
    if parsed.follow:
        threading.Thread(target=_note_ends, args=(cluster, parsed.name, output), daemon=True).start()
    # What has been printed comes at once; what will be comes when it will.
    output.end(None if parsed.follow else REST_S)
    return 1 if output.failure else 0


def _note_ends(cluster: Cluster, name: str, output: Output) -> None:
    """Tells `output` which pods are over."""
    while True:
        time.sleep(LOOK_S)
        try:
            for pod in cluster.pods(name, "script"):
                if ended(pod) is not None:
                    output.follow(pod.metadata.name, True)
        except ClusterError:
            continue


def _status(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    job = _job_of(cluster, parsed.name)
    over = [c for c in job.status.conditions or () if c.status == "True" and c.type in ("Complete", "Failed")]
    print(f"job {parsed.name}: {over[0].type.lower() if over else 'under way'}")
    for pod in cluster.pods(parsed.name, "controller") + cluster.pods(parsed.name, "script"):
        end = ended(pod)
        more = f"exit code {end.code} {end.why}".rstrip() if end is not None else why_waits(pod)
        print(f"  {pod.metadata.name}: {pod.status.phase} on {pod.spec.node_name or 'no node'}" + f" {more}".rstrip())
    return 0


def _scale(parsed: argparse.Namespace) -> int:
    cluster = Cluster(parsed.namespace, parsed.context)
    job = _job_of(cluster, parsed.name)
    if job.spec.completions is not None:
        raise UsageError(f"job {parsed.name} is not elastic: --min-np makes one so")
    slots = int((job.metadata.annotations or {}).get(SLOTS, 1))
    if parsed.processes % slots:
        raise UsageError(f"-np {parsed.processes} processes cannot be divided into the job's pods of {slots}")
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
