"""Real pods of our images on a real cluster: `make test-kubernetes`."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import old_cluster
import pytest
from cluster import ROOT, Cluster, until

IMAGE = "farandole/worker-examples:0.1.0"
RUN_S = 120.0


class Job:
    """`farandole kubernetes run`, as a user would see it."""

    def __init__(self, cluster: Cluster, process: subprocess.Popen[str], name: str) -> None:
        self.cluster, self.process, self.name = cluster, process, name
        self.stdout = self.stderr = ""

    def wait(self, seconds: float = RUN_S) -> int:
        """Its exit code."""
        try:
            self.stdout, self.stderr = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.stdout, self.stderr = self.process.communicate()
            pytest.fail(f"not within {seconds:.0f} s\n{self.report()}")
        return self.process.returncode

    def report(self) -> str:
        """What it has said, and what the cluster says of its pods."""
        told = self.cluster.kubectl("get", "pods,events", check=False).stdout
        return f"--- stdout\n{self.stdout}--- stderr\n{self.stderr}--- cluster\n{told}"

    def pods(self, role: str = "script") -> list[Any]:
        """As Kubernetes has them."""
        return self.cluster.get("pods", "-l", f"farandole.dev/job={self.name},farandole.dev/role={role}")["items"]

    def exec(self, index: int, command: str) -> str:
        """Runs a command of the shell in a pod."""
        label = f"batch.kubernetes.io/job-completion-index={index},farandole.dev/job={self.name}"
        (pod,) = self.cluster.get("pods", "-l", label, "--field-selector", "status.phase=Running")["items"]
        return self.cluster.kubectl("exec", pod["metadata"]["name"], "--", "sh", "-c", command).stdout


@contextmanager
def run(cluster: Cluster, name: str, ranks: int, code: str, *options: str) -> Iterator[Job]:
    """A job of a script, which is deleted afterwards; names are not used twice."""
    words = ["-m", "farandole", "kubernetes", "run", "-np", str(ranks), "--name", name, "--image", IMAGE]
    words += ["--pull", "Never", "--start-timeout", "90", *options, "--", "python", "-c", code]
    process = cluster.python(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    job = Job(cluster, process, name)
    try:
        until(lambda: process.poll() is not None or named(cluster, f"{name}-controller"), "the Service", 30)
        yield job
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
        cluster.kubectl("delete", "secret", name, "--ignore-not-found", "--wait=false")


def named(cluster: Cluster, service: str) -> bool:
    """Whether a Service is there, which has its name from then on."""
    if cluster.kubectl("get", "service", service, check=False).returncode:
        return False
    cluster.name_services()
    return True


def test_digits_are_learnt_by_pods_of_two_ranks(cluster: Cluster) -> None:
    code = (ROOT / "examples" / "torch_digits.py").read_text()
    with run(cluster, "digits", 4, code, "--slots", "2", "--env", "OMP_NUM_THREADS=1") as job:
        assert job.wait() == 0, job.report()
        (accuracy,) = re.findall(r"^\[0\] test accuracy (\d\.\d+), processes 4", job.stdout, re.MULTILINE)
        assert float(accuracy) > 0.95
        assert "2 of 2 pods run" in job.stderr
        # Whatever it has made is gone.
        until(lambda: not job.pods() and not job.pods("controller"), "the end of its pods", 60)
        for kind in ("secret", "service", "deployment", "job", "networkpolicy"):
            assert not cluster.get(kind, "-l", "farandole.dev/job=digits")["items"], kind


def test_a_script_that_fails_gives_its_exit_code(cluster: Cluster) -> None:
    code = """
import sys, time
import farandole.torch as hvd
hvd.init()
if hvd.rank() == 1: sys.exit(7)
hvd.barrier()
"""
    with run(cluster, "fails", 2, code) as job:
        assert job.wait() == 7, job.report()
    assert re.search(r"job fails failed: pod fails-1-\w+ ended with code 7", job.stderr), job.stderr


@pytest.mark.parametrize(
    "name, options, reason",
    [
        ("no-image", ("--image", "farandole/none:1"), "ErrImageNeverPull"),
        ("no-room", ("--cpu", "1000"), "Unschedulable: .*Insufficient cpu"),
    ],
)
def test_a_pod_that_does_not_start_says_why(cluster: Cluster, name: str, options: tuple[str, ...], reason: str) -> None:
    with run(cluster, name, 1, "pass", *options, "--start-timeout", "12") as job:
        assert job.wait() == 1, job.report()
    assert re.search(rf"0 of 1 pods run; {name}-0-\w+: {reason}", job.stderr), job.stderr
    assert "not all pods ran within 12 s" in job.stderr


def test_a_controller_that_does_not_start_says_why(cluster: Cluster) -> None:
    code = "import time; time.sleep(60)"
    with run(cluster, "no-one", 1, code, "--controller-image", "farandole/none:1", "--start-timeout", "12") as job:
        assert job.wait() == 1, job.report()
    assert re.search(r"pods run; no-one-controller-\S+: ErrImageNeverPull", job.stderr), job.stderr


def test_a_pod_without_memory_is_named(cluster: Cluster) -> None:
    code = "x = bytearray(10**9)"
    with run(cluster, "memory", 1, code, "--memory", "100Mi", "--shared-memory", "10Mi") as job:
        assert job.wait() == 137, job.report()
    assert re.search(r"pod memory-0-\w+ ended with code 137: out of memory", job.stderr), job.stderr


def test_a_name_that_is_used_is_said(cluster: Cluster) -> None:
    with run(cluster, "twice", 1, "pass", "--detach") as job:
        assert job.wait() == 0
        with run(cluster, "twice", 1, "pass") as again:
            assert again.wait() == 1, again.report()
        assert "`farandole kubernetes delete twice` removes a job" in again.stderr, again.stderr


def test_a_rendered_job_is_deleted(cluster: Cluster) -> None:
    words = ("render", "-np", "1", "--name", "rendered", "--image", IMAGE, "--pull", "Never", "--", "sleep", "100")
    path = cluster.folder / "rendered.json"
    path.write_text(command(cluster, *words))
    cluster.kubectl("apply", "--validate=false", "-f", str(path))
    command(cluster, "delete", "rendered")
    for kind in ("secret", "service", "deployment", "job", "networkpolicy"):
        found = lambda kind=kind: cluster.get(kind, "-l", "farandole.dev/job=rendered")["items"]  # noqa: E731
        until(lambda found=found: not found(), kind, 30)


def test_a_quota_that_is_used_up_is_named(cluster: Cluster) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"secrets": "0"}},
    }
    cluster.apply(quota)
    try:
        until(lambda: cluster.get("resourcequota", "none").get("status", {}).get("hard"), "the quota", 30)
        with run(cluster, "no-quota", 1, "pass") as job:
            assert job.wait() == 1, job.report()
        assert "Secret no-quota cannot be made in namespace default: " in job.stderr
        assert "exceeded quota: none" in job.stderr
    finally:
        cluster.kubectl("delete", "resourcequota", "none")


# Steps of a tenth of a second, of which each rank says the longest.
STEPS = """
import time
import torch
import farandole.torch as hvd
hvd.init()
longest = 0.0
for step in range(100):
    begin = time.monotonic()
    total = hvd.allreduce(torch.ones(1000), op=hvd.Sum, name="x")
    assert total[0] == hvd.size()
    longest = max(longest, time.monotonic() - begin)
    if step == 10: print("stepping", flush=True)
    time.sleep(0.1)
print(f"steps {step + 1} longest {longest:.3f}", flush=True)
hvd.shutdown()
"""


def begun(job: Job) -> bool:
    """Whether both ranks are in their steps."""
    logs = job.cluster.kubectl("logs", "-l", f"farandole.dev/job={job.name},farandole.dev/role=script", check=False)
    return logs.stdout.count("stepping") == 2


def test_a_deleted_controller_costs_no_step(cluster: Cluster) -> None:
    with run(cluster, "outage", 2, STEPS) as job:
        until(lambda: begun(job), "steps", 60)
        (before,) = job.pods("controller")
        cluster.kubectl("delete", "pod", before["metadata"]["name"], "--wait=false")
        assert job.wait() == 0, job.report()
    found = re.findall(r"steps (\d+) longest (\d+\.\d+)", job.stdout)
    assert [steps for steps, _ in found] == ["100", "100"], job.stdout
    print("longest steps", [seconds for _, seconds in found])
    assert max(float(seconds) for _, seconds in found) < 5.0


def test_a_killed_pod_ends_its_job_unless_there_are_attempts(cluster: Cluster) -> None:
    with run(cluster, "attempts", 2, STEPS, "--attempts", "1") as job:
        until(lambda: begun(job), "steps", 60)
        victim = next(pod for pod in job.pods() if "-1-" in pod["metadata"]["name"])
        cluster.kubectl("delete", "pod", victim["metadata"]["name"], "--grace-period=1", "--wait=false")
        assert job.wait() == 0, job.report()
    # The second attempt did all steps.
    assert len(re.findall(r"steps 100 ", job.stdout)) == 2, job.report()


def test_ctrl_c_deletes_the_job(cluster: Cluster) -> None:
    with run(cluster, "stopped", 2, STEPS.replace("range(100)", "range(10**6)")) as job:
        until(lambda: begun(job), "steps", 60)
        # nsenter has a child; that is Python.
        (python,) = (ROOT / f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split()
        subprocess.run(["kill", f"-{signal.SIGINT}", python], check=True)
        assert job.wait(30) == 130, job.report()
        assert "interrupted: deleting job stopped" in job.stderr
        until(lambda: not job.pods() and not job.pods("controller"), "the end of its pods", 60)


def test_a_detached_job_is_looked_at_and_deleted(cluster: Cluster) -> None:
    with run(cluster, "detached", 2, STEPS, "--detach") as job:
        assert job.wait() == 0
        until(lambda: begun(job), "steps", 60)
        status = command(cluster, "status", "detached")
        assert "job detached: under way" in status and status.count("Running on n1") == 3, status
        assert command(cluster, "logs", "--follow", "detached").count("steps 100") == 2
        until(lambda: "job detached: complete" in command(cluster, "status", "detached"), "the end", 30)
        command(cluster, "delete", "detached")
        until(lambda: not cluster.get("job", "-l", "farandole.dev/job=detached")["items"], "no Job", 30)
        gone = cluster.python("-m", "farandole", "kubernetes", "status", "detached", stderr=subprocess.PIPE)
        assert "there is no job 'detached' in namespace default; there are: none" in gone.communicate(timeout=30)[1]
        assert gone.returncode == 1


def command(cluster: Cluster, *words: str) -> str:
    """What a command of `farandole kubernetes` prints."""
    process = cluster.python("-m", "farandole", "kubernetes", *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    return output


def made_secrets(cluster: Cluster) -> None:
    """As the page of deploy/kubernetes makes them, in the place of others."""
    for name in ("farandole-key", "farandole-tls", "farandole-token"):
        cluster.kubectl("delete", "secret", name, "--ignore-not-found")
    folder = ROOT / "deploy" / "kubernetes"
    secrets = cluster.folder / "secrets"
    secrets.mkdir(exist_ok=True)
    page = (folder / "README.md").read_text()
    (shell,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "openssl rand" in block]
    path = f"{ROOT}/bazel-bin/controller:{ROOT}/.deps/kubectl/usr/bin:/usr/bin:/bin"
    made = cluster.run("env", f"PATH={path}", "sh", "-ec", f"cd {secrets}\n{shell}", check=False)
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("overlay, ranks", [("job", "4"), ("elastic", "[2-4]")])
def test_the_shared_controller_serves_a_job(cluster: Cluster, overlay: str, ranks: str) -> None:
    """deploy/kubernetes as it stands."""
    made_secrets(cluster)
    folder = ROOT / "deploy" / "kubernetes"
    objects = old_cluster.rendered(folder / "base") + old_cluster.rendered(folder / overlay)
    for found in objects:
        for container in found.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            if container["image"].startswith("farandole/worker-torch"):
                container["image"] = IMAGE
                # Four of them share two cores here.
                container["resources"]["requests"] = {"cpu": "100m", "memory": "256Mi"}
    cluster.apply(*objects)
    try:
        until(lambda: named(cluster, "farandole-controller"), "the Service", 30)
        done = until(lambda: cluster.get("job", "example").get("status", {}).get("conditions"), "the job", RUN_S)
        logs = cluster.kubectl("logs", "-l", "app.kubernetes.io/instance=example", "--tail", "20").stdout
        assert [c["type"] for c in done if c["status"] == "True"] == ["Complete"], logs
        (accuracy,) = re.findall(rf"accuracy (\d\.\d+), ranks {ranks}", logs)
        assert float(accuracy) > 0.9
    finally:
        for kind in ("job/example", "deployment/farandole-controller", "secret/farandole-key"):
            cluster.kubectl("delete", kind, "--ignore-not-found")


def test_time_to_the_first_line_beside_a_bare_pod(cluster: Cluster) -> None:
    """From the command to the script's first line, beside kubectl run of the same image."""
    begin = time.monotonic()
    words = ["run", "bare", f"--image={IMAGE}", "--image-pull-policy=Never", "--restart=Never", "--attach", "-q"]
    cluster.kubectl(*words, "--command", "--", "python", "-c", "print('here')", timeout=RUN_S)
    bare = time.monotonic() - begin
    cluster.kubectl("delete", "pod", "bare", "--wait=false")
    begin = time.monotonic()
    with run(cluster, "first-line", 1, "print('here', flush=True)") as job:
        line = job.process.stdout.readline()
        ours = time.monotonic() - begin
        assert line == "[0] here\n", line
        assert job.wait() == 0, job.report()
    print(f"first line after {ours:.1f} s, of a bare pod after {bare:.1f} s")
    assert ours - bare < 15.0
