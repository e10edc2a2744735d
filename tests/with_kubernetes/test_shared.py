"""The controller of deploy/kubernetes, which many jobs share: jobs, secrets that are exchanged, and who is refused."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import shared
from cluster import Cluster
from jobs import RUN_S, STEADY, longest_step, name_of, steps
from node import until
from shared import CONTROLLER, JOB, Bystander

Outcome = Callable[[str], None]
ADDRESS = f"{CONTROLLER}:{shared.AGENTS}"
# Exit codes of a question for a job's status.
ANSWERED, REFUSED, NO_CONNECTION = 0, 4, 3
# A pod sees a changed Secret within 5 s here, the controller its changed file within some seconds.
SEEN_S = 40


@pytest.mark.parametrize("overlay, ranks", [("job", "4"), ("elastic", "[2-4]")])
def test_the_shared_controller_serves_a_job(cluster: Cluster, overlay: str, ranks: str) -> None:
    """deploy/kubernetes as it stands."""
    objects = shared.job_objects(overlay)
    with shared.controller(cluster), shared.applied(cluster, objects, f"job/{JOB}"):
        done = until(lambda: cluster.get("job", JOB).get("status", {}).get("conditions"), "the job", RUN_S)
        logs = said_by(cluster)
        assert [c["type"] for c in done if c["status"] == "True"] == ["Complete"], logs
        (accuracy,) = re.findall(rf"accuracy (\d\.\d+), ranks {ranks}", logs)
        assert float(accuracy) > 0.9


def said_by(cluster: Cluster) -> str:
    """What the pods of the job have printed."""
    return cluster.kubectl("logs", "-l", f"app.kubernetes.io/instance={JOB}", "--tail", "-1", check=False).stdout


def pods_of_job(cluster: Cluster) -> list[str]:
    """Their names."""
    return [name_of(pod) for pod in cluster.get("pods", "-l", f"app.kubernetes.io/instance={JOB}")["items"]]


def run_in(cluster: Cluster, pod: str, *words: str) -> str:
    """What a command prints in a pod."""
    return cluster.kubectl("exec", pod, "--", *words).stdout


def agents_of(cluster: Cluster, controller: str) -> set[str]:
    """Those that have come to a pod of the controller."""
    return set(re.findall(r"agent (\w+) connected from host", cluster.kubectl("logs", controller).stdout))


def another_than(before: str, pod: Any) -> str:
    """The name of a pod that is another one; empty: it is none."""
    return name_of(pod) if pod and name_of(pod) != before else ""


def said_by_controller(cluster: Cluster) -> str:
    """What the controller has logged."""
    return cluster.kubectl("logs", f"deployment/{CONTROLLER}", "--tail", "-1", check=False).stdout


def ask(client: Bystander, token: str, authority: str, *more: str) -> tuple[int, str]:
    """The exit code of a question for the job's status, and what it says."""
    client.write("/tmp/token", token)
    client.write("/tmp/ca.crt", authority)
    find = "import farandole; print(farandole.__path__[0])"
    query = f"$(python -c '{find}')/bin/farandole-controller query"
    words = f"--controller {ADDRESS} --job {JOB} --token-file /tmp/token --tls-ca /tmp/ca.crt {' '.join(more)}"
    done = client.run("sh", "-c", f"{query} {words}")
    return done.returncode, done.stderr


def enter(client: Bystander, token: str, authority: str, *more: str) -> tuple[int, str]:
    """The exit code of an agent whose script enters the job and leaves it, and what both say."""
    client.write("/tmp/token", token)
    client.write("/tmp/ca.crt", authority)
    variables = "JOB_COMPLETION_INDEX=0 FARANDOLE_START_TIMEOUT=4"
    words = f"--pod --controller {ADDRESS} --job {JOB} --token-file /tmp/token --tls-ca /tmp/ca.crt {' '.join(more)}"
    script = "from farandole.session.init import init, shutdown; init(); shutdown()"
    words += f" --size 1 --local-size 1 -- python -c '{script}'"
    done = client.run("sh", "-c", f"{variables} farandole-agent {words}")
    return done.returncode, done.stderr


@pytest.mark.fault("certificate and key exchanged under a job")
def test_secrets_are_exchanged_under_a_running_job(cluster: Cluster, outcome: Outcome) -> None:
    objects = shared.job_objects("job")
    for found in objects:
        if found["kind"] == "ConfigMap":
            found["data"]["train.py"] = STEADY
        elif found["kind"] == "Job":
            found["spec"].update({"completions": 2, "parallelism": 2})
    for container in shared.containers_of(objects):
        container["args"] = [word.replace("--size=4", "--size=2") for word in container["args"]]
    folder = cluster.folder / "secrets"
    with (
        shared.controller(cluster),
        shared.applied(cluster, objects, f"job/{JOB}"),
        shared.bystander(cluster, "client", shared.LABELS) as client,
    ):
        until(lambda: len(steps(said_by(cluster))) == 2, "steps", 60)
        longest = longest_step(lambda: said_by(cluster), 2, lambda: exchange(cluster, client, folder))
        run_in(cluster, pods_of_job(cluster)[0], "touch", "/tmp/enough")
        # It began with the old token, and ends well.
        done = until(lambda: cluster.get("job", JOB).get("status", {}).get("conditions"), "the job", 60)
        assert [c["type"] for c in done if c["status"] == "True"] == ["Complete"], said_by(cluster)
    new = "new connections see the new certificate and need the new key, also those of agents that run"
    outcome(f"{new}; no step lost, longest {longest:.2f} s")
    assert longest < 5.0


def exchange(cluster: Cluster, client: Bystander, folder: Path) -> None:
    """As docs/security.md has it: what is new beside what is old, then instead of it."""
    old_key, old_crt = (folder / "key").read_text().strip(), (folder / "tls.crt").read_text()
    names = ("-addext", f"subjectAltName=DNS:{CONTROLLER}")
    new_crt, new_private = shared.make_certificate(folder, "new", *names)
    new_key = "0123456789abcdef" * 4
    (folder / "new.controller").write_text(new_key)
    (folder / "new.controller").chmod(0o600)
    old_token = shared.token_of(cluster, folder / "key", JOB)
    new_token = shared.token_of(cluster, folder / "new.controller", JOB)
    assert ask(client, old_token, old_crt)[0] == ANSWERED
    assert ask(client, old_token, new_crt)[0] == NO_CONNECTION
    assert ask(client, new_token, old_crt)[0] == REFUSED
    shared.change_secret(cluster, "farandole-key", key=f"{new_key}\n{old_key}\n")
    shared.change_secret(cluster, "farandole-tls", ca_crt=old_crt + new_crt)
    until(lambda: "2 keys, the first is another" in said_by_controller(cluster), "the new key", SEEN_S)
    shared.change_secret(cluster, "farandole-tls", tls_crt=new_crt, tls_key=new_private)
    until(lambda: ask(client, new_token, new_crt)[0] == ANSWERED, "the new certificate", SEEN_S)
    assert ask(client, old_token, new_crt)[0] == ANSWERED
    assert ask(client, new_token, old_crt)[0] == NO_CONNECTION
    shared.change_secret(cluster, "farandole-token", token=new_token)
    for pod in pods_of_job(cluster):
        until(lambda pod=pod: new_token in run_in(cluster, pod, "cat", "/token/token"), "the new token", SEEN_S)
    shared.change_secret(cluster, "farandole-key", key=f"{new_key}\n")
    until(lambda: re.search(r"keys read again .*: 1 key$", said_by_controller(cluster), re.M), "one key", SEEN_S)
    assert ask(client, new_token, new_crt)[0] == ANSWERED
    assert ask(client, old_token, new_crt)[0] == REFUSED
    # The job's agents, which began with what is wrong now, find another controller as well.
    before = name_of(shared.controller_pod(cluster))
    cluster.kubectl("delete", "pod", before, "--wait=false")
    after = until(lambda: another_than(before, shared.controller_pod(cluster)), "another controller", 60)
    try:
        until(lambda: len(agents_of(cluster, after)) >= 2, "both agents", 60)
    except TimeoutError:
        pytest.fail(f"{agents_of(cluster, after)} of 2 agents came\n{said_by(cluster)}{said_by_controller(cluster)}")


@pytest.mark.fault("wrong token, shared controller")
def test_a_wrong_token_fails_the_job(cluster: Cluster, outcome: Outcome) -> None:
    """Kubernetes does not try again what cannot help."""
    with shared.controller(cluster):
        wrong = shared.token_of(cluster, cluster.folder / "secrets" / "key", "another-job")
        shared.change_secret(cluster, "farandole-token", token=wrong)
        begin = time.monotonic()
        with shared.applied(cluster, shared.job_objects("job"), f"job/{JOB}"):
            done = until(lambda: cluster.get("job", JOB).get("status", {}).get("conditions"), "the job", 60)
            seconds, said = time.monotonic() - begin, said_by(cluster)
            assert [(c["type"], c["reason"]) for c in done if c["status"] == "True"] == [("Failed", "PodFailurePolicy")]
    (sentence,) = set(re.findall(r"refuses the token: ([^;\n]+); check that it was made with the controller", said))
    outcome(f'the job fails after {seconds:.0f} s, without another attempt: "{sentence}"')


@pytest.mark.fault("no certificate of the client, controller with --tls-client-ca")
def test_a_client_without_a_certificate_is_refused(cluster: Cluster, outcome: Outcome) -> None:
    folder = cluster.folder / "clients"
    folder.mkdir()
    own = {job: certificate_for(folder, job) for job in (JOB, "another-job")}
    clients = "".join(certificate for certificate, _ in own.values())
    with shared.controller(cluster, clients), shared.bystander(cluster, "client", shared.LABELS) as client:
        folder = cluster.folder / "secrets"
        token, authority = shared.token_of(cluster, folder / "key", JOB), (folder / "tls.crt").read_text()
        without = enter(client, token, authority)
        answers = []
        for job in (JOB, "another-job"):
            client.write("/tmp/own.crt", own[job][0])
            client.write("/tmp/own.key", own[job][1])
            answers.append(enter(client, token, authority, "--tls-cert", "/tmp/own.crt", "--tls-key", "/tmp/own.key"))
    assert without[0] == 1 and "whether it wants a certificate of this end (--tls-cert)" in without[1], without
    assert answers[0][0] == 0, answers
    assert answers[1][0] == 1 and f"the certificate is not for job {JOB}" in answers[1][1], answers
    outcome("no connection, and its agent says what may be missing; with one for the job it runs, another's is refused")


def certificate_for(folder: Path, job: str) -> tuple[str, str]:
    """Of a job's agents, which has signed itself."""
    return shared.make_certificate(folder, f"of-{job}", "-addext", f"subjectAltName=URI:farandole:job:{job}")
