"""Jobs as users make them, `farandole kubernetes run`, and what the cluster says of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from node import until

IMAGE = "farandole/worker-examples:0.1.0"
RUN_S = 120.0
# A kubelet of this age may keep a pod that has ended until it has tidied up, once in a minute, and says so up to ten
# seconds later.
GONE_S = 90.0
# Steps of a tenth of a second, until a file in a pod says that it is enough. Each rank says the longest of every five.
STEADY = """
import os, time
import torch
import farandole.torch as hvd
hvd.init()
print("begins", flush=True)
longest, last, step = 0.0, time.monotonic(), 0
while True:
    assert hvd.allreduce(torch.ones(1000), op=hvd.Sum, name="x")[0] == hvd.size()
    over = torch.tensor([float(os.path.exists("/tmp/enough"))])
    over = hvd.allreduce(over, op=hvd.Max, name="enough")[0]
    now = time.monotonic()
    longest, last, step = max(longest, now - last), now, step + 1
    if step % 5 == 0:
        print(f"rank {hvd.rank()} step {step} longest {longest:.3f}", flush=True)
        longest = 0.0
    if over: break
    time.sleep(0.1)
print(f"done after step {step}", flush=True)
hvd.shutdown()
"""
# So many steps after a fault has been made good still count as being under it.
AFTER = 20


class Job:
    """`farandole kubernetes run`, as a user would see it."""

    def __init__(self, cluster: Cluster, name: str, words: list[str]) -> None:
        self.cluster, self.name = cluster, name
        folder = cluster.folder / "jobs"
        folder.mkdir(exist_ok=True)
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        # A name may be used twice, by a command that is refused.
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self.process = cluster.python("-m", "farandole", "kubernetes", *words, stdout=out, stderr=err)

    @property
    def stdout(self) -> str:
        """What has come so far."""
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        """What has come so far."""
        return self._err.read_text()

    def wait(self, seconds: float = RUN_S) -> int:
        """Its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"not within {seconds:.0f} s; {self.brief()}\n{self.report()}")

    def until(self, done: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        """What `done` returns, once it is true; fails the test with all that there is to say otherwise."""
        try:
            return until(done, what, seconds)
        except TimeoutError as error:
            pytest.fail(f"{error}; {self.brief()}\n{self.report()}")

    def until_gone(self) -> None:
        """Until it has no pods any more."""
        self.until(lambda: not self.pods() and not self.pods("controller"), "the end of its pods", GONE_S)

    def brief(self) -> str:
        """Its pods, in a line."""
        return "; ".join(map(state_of, self.pods("controller") + self.pods())) or "no pods"

    def report(self) -> str:
        """What it, its pods and its controller have said, and what the cluster says of them."""
        told = self.cluster.kubectl("get", "pods,events", "-o", "wide", check=False).stdout
        own = "".join(f"{line}\n" for line in told.splitlines() if self.name in line)
        parts = {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "pods": self.lines(),
            "controller": self.lines("controller"),
            "cluster": own,
            "nodes": self._logged(),
        }
        return "".join(f"--- {name}\n{text[-6000:]}" for name, text in parts.items())

    def _logged(self) -> str:
        """What the programs of the nodes have logged about it."""
        found = []
        for path in sorted(self.cluster.logs.glob("n*/kubelet.log")):
            lines = [line for line in path.read_text(errors="replace").splitlines() if f"{self.name}-" in line]
            found += [f"{path.parent.name}: {line[:300]}\n" for line in lines[-20:]]
        return "".join(found)

    def pods(self, role: str = "script") -> list[Any]:
        """As Kubernetes has them."""
        return self.cluster.get("pods", "-l", f"farandole.dev/job={self.name},farandole.dev/role={role}")["items"]

    def running(self, role: str = "script") -> list[Any]:
        """Those that are to stay."""
        pods = self.pods(role)
        return [p for p in pods if p["status"]["phase"] == "Running" and "deletionTimestamp" not in p["metadata"]]

    def lines(self, role: str = "script") -> str:
        """What the pods that are there have printed."""
        selector = f"farandole.dev/job={self.name},farandole.dev/role={role}"
        return self.cluster.kubectl("logs", "-l", selector, "--tail", "-1", check=False).stdout

    def waits(self, pod: Any) -> bool:
        """Whether its agent has said that it does not reach the controller."""
        said = self.cluster.kubectl("logs", name_of(pod), check=False).stdout
        return "no connection to the controller" in said

    def enough(self) -> None:
        """Has a script that goes on until then end."""
        self.cluster.kubectl("exec", name_of(self.running()[0]), "--", "touch", "/tmp/enough")


@contextmanager
def run(cluster: Cluster, name: str, ranks: int, code: str, *options: str, named: bool = True) -> Iterator[Job]:
    """A job of a script, which is deleted afterwards; names are not used twice. Unless `named`, nobody knows its
    controller's until the cluster is asked to name Services."""
    words = ["run", "-np", str(ranks), "--name", name, "--image", IMAGE]
    words += ["--pull", "Never", "--start-timeout", "90", *options, "--", "python", "-c", code]
    job = Job(cluster, name, words)
    try:
        service = f"{name}-controller"
        until(lambda: not named or job.process.poll() is not None or name_service(cluster, service), service, 30)
        yield job
    finally:
        if job.process.poll() is None:
            job.process.kill()
            job.process.wait()
        cluster.kubectl("delete", "secret", name, "--ignore-not-found", "--wait=false")


def name_service(cluster: Cluster, service: str) -> bool:
    """Whether a Service is there, which has its name from then on."""
    if cluster.kubectl("get", "service", service, check=False).returncode:
        return False
    cluster.name_services()
    return True


def command(cluster: Cluster, *words: str) -> str:
    """What a command of `farandole kubernetes` prints."""
    process = cluster.python("-m", "farandole", "kubernetes", *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    return output


def state_of(pod: Any) -> str:
    """A pod with its node, its phase, since when it is to go, and how its containers are."""
    about, status = pod["metadata"], pod["status"]
    words = [about["name"], pod["spec"].get("nodeName", "without node"), status["phase"]]
    if "deletionTimestamp" in about:
        words.append(f"to go by {about['deletionTimestamp'][11:19]}, now {time.strftime('%H:%M:%S', time.gmtime())}")
    for container in status.get("containerStatuses", ()):
        state, more = next(iter(container["state"].items()), ("unknown", {}))
        words.append(f"{state} {more.get('exitCode', more.get('reason', ''))}".strip())
    return " ".join(words)


def name_of(pod: Any) -> str:
    """Of an object."""
    return pod["metadata"]["name"]


def node_of(pod: Any) -> str:
    """The name of its node."""
    return pod["spec"]["nodeName"]


def leads(job: Job) -> Any:
    """The pod of its controller that is ready; None: there is none."""
    for pod in job.running("controller"):
        if all(container["ready"] for container in pod["status"].get("containerStatuses", [{"ready": False}])):
            return pod
    return None


def leads_instead(job: Job, of: Any) -> Any:
    """Another pod, that is ready."""
    pod = leads(job)
    return pod if pod and name_of(pod) != name_of(of) else None


def process_of(pod: str, program: str) -> int:
    """The oldest process of a pod that runs this program, as it is on this machine."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            variables = (place / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(program.encode()) and f"HOSTNAME={pod}".encode() in variables:
            found.append(int(place.name))
    assert found, f"no {program} in pod {pod}"
    return min(found)


def kill(pod: str, program: str) -> None:
    """kill -9, from outside."""
    os.kill(process_of(pod, program), signal.SIGKILL)


def interrupt(command: int) -> None:
    """Ctrl-C, to a command in a node's namespaces."""
    # nsenter has a child; that is Python.
    (python,) = Path(f"/proc/{command}/task/{command}/children").read_text().split()
    os.kill(int(python), signal.SIGINT)


def steps(said: str) -> dict[str, int]:
    """By rank the last step of a STEADY job that it has said."""
    return {rank: int(step) for rank, step in re.findall(r"rank (\d+) step (\d+) ", said)}


def longest_step(read: Callable[[], str], ranks: int, fault: Callable[[], None]) -> float:
    """How long the longest step of a STEADY job took while something happened to it, in seconds. Fails the test if it
    does not go on, or has begun anew.

    Args:
        read: what the job has printed so far.
        fault: returns when the fault has been made good.
    """
    before = steps(read())
    assert len(before) == ranks
    fault()
    goal = {rank: step + AFTER for rank, step in steps(read()).items()}
    until(lambda: all(step >= goal[rank] for rank, step in steps(read()).items()), "steps after the fault", 60)
    said = read()
    assert said.count("begins") == ranks, "no rank has begun anew"
    found = re.findall(r"rank (\d+) step (\d+) longest ([\d.]+)", said)
    return max(float(seconds) for rank, step, seconds in found if int(step) > before[rank])
