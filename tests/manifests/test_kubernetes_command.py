"""What `farandole kubernetes` makes: objects that the API server takes, agents that take their command lines, and what
it says of a wrong command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from manifests import ROOT, flags
from test_schemas import RELEASES, complain

from farandole.base import locate


def farandole(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "farandole", "kubernetes", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)


def render(*words: str) -> dict[str, dict[str, Any]]:
    """The objects, by kind."""
    done = farandole("render", "--image", "my/train:1", "--name", "digits", *words)
    assert done.returncode == 0, done.stderr
    return {found["kind"]: found for found in json.loads(done.stdout)["items"]}


WAYS = {
    "least": ("-np", "2", "--", "python", "train.py"),
    "elastic": ("-np", "6", "--slots", "2", "--min-np", "2", "--max-np", "8", "--", "python", "train.py"),
    "most": (
        *("-np", "8", "--slots", "4", "--gpus", "1", "--cpu", "1.5", "--memory", "8Gi", "--shared-memory", "1Gi"),
        *(
            "--env",
            "A=b=c",
            "--attempts",
            "2",
            "--pull",
            "Always",
            "--service-account",
            "train",
            "--user",
            "1000",
            "--pull-secret",
            "r",
        ),
        *(
            "--controller-image",
            "my/controller:1",
            "--start-timeout",
            "60",
            "--",
            "python",
            "train.py",
            "--epochs",
            "3",
        ),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_kubernetes_takes_what_is_rendered(way: str) -> None:
    found = render(*WAYS[way])
    assert sorted(found) == ["Deployment", "Job", "NetworkPolicy", "Secret", "Service"]
    for kind, manifest in found.items():
        assert [complain(manifest, release) for release in RELEASES] == [""] * len(RELEASES), kind


def test_every_flag_has_its_place() -> None:
    found = render(*WAYS["most"])
    spec = found["Job"]["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (2, 2, 5)
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["requests"] == {"cpu": "6", "memory": "32Gi"}
    assert container["resources"]["limits"] == {"memory": "32Gi", "nvidia.com/gpu": "4"}
    assert {"name": "A", "value": "b=c"} in container["env"]
    assert {"name": "FARANDOLE_START_TIMEOUT", "value": "60"} in container["env"]
    assert (container["image"], container["imagePullPolicy"]) == ("my/train:1", "Always")
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("train", True)
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 1000
    assert pod["imagePullSecrets"] == [{"name": "r"}] and pod["securityContext"]["runAsNonRoot"]
    assert container["command"][-5:] == ["--", "python", "train.py", "--epochs", "3"]
    (controller,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert controller["image"] == "my/controller:1"


def test_an_elastic_job_has_pods_that_come_and_go() -> None:
    found = render(*WAYS["elastic"])["Job"]
    bounds = {"farandole.dev/slots": "2", "farandole.dev/min-np": "2", "farandole.dev/max-np": "8"}
    assert found["metadata"]["annotations"] == bounds
    spec = found["spec"]
    assert "completions" not in spec and "completionMode" not in spec
    assert (spec["parallelism"], spec["backoffLimit"]) == (3, 6)
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "Ignore"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    words = container["command"]
    given = {word: words[at + 1] for at, word in enumerate(words) if word.startswith("--") and word != "--"}
    assert (given["--size"], given["--min-size"], given["--max-size"]) == ("6", "2", "8")
    assert given["--run"] == "$(FARANDOLE_RUN)", "which Kubernetes replaces"
    assert pod["terminationGracePeriodSeconds"] > float(given["--leave-seconds"]) + 5, "SIGTERM and SIGKILL come then"
    # A pod for which there is no room waits, rather than to fail and to count.
    assert {"name": "FARANDOLE_ELASTIC_TIMEOUT", "value": "86400"} in container["env"]
    assert {"name": "FARANDOLE_START_TIMEOUT", "value": "600"} in container["env"]
    assert "86400" in (ROOT / "deploy" / "kubernetes" / "elastic" / "job.yaml").read_text(), "as there"
    (run,) = [variable for variable in container["env"] if variable["name"] == "FARANDOLE_RUN"]
    assert run["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.labels['controller-uid']"}}


@pytest.mark.parametrize("way", ["least", "elastic"])
def test_programs_know_the_flags(way: str) -> None:
    found = render(*WAYS[way])
    (agent,) = found["Job"]["spec"]["template"]["spec"]["containers"]
    (controller,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    for program, words in (("farandole-agent", agent["command"][1:]), ("farandole-controller", controller["args"])):
        told = subprocess.run([locate.find(program), "--help"], capture_output=True, text=True, check=True).stdout
        given = [word for word in words[: words.index("--")] if word.startswith("--")] if "--" in words else words
        assert given
        for flag in flags([word for word in given if word.startswith("--")]):
            assert re.search(rf"^  {flag}\b", told, re.MULTILINE), (program, flag)


def test_the_secrets_stand_in_the_secret_alone() -> None:
    found = render(*WAYS["least"])
    secrets = found.pop("Secret")["stringData"]
    assert sorted(secrets) == ["certificate", "key", "token"]
    text = json.dumps(found)
    for name, value in secrets.items():
        assert value not in text, name
    volumes = [v for v in found["Job"]["spec"]["template"]["spec"]["volumes"] if "secret" in v]
    # The script's pods do not get the key.
    assert [item["key"] for v in volumes for item in v["secret"]["items"]] == ["token", "certificate"]


@pytest.mark.parametrize(
    "words, complaint",
    [
        (
            ("-np", "3", "--slots", "2", "--image", "i", "--", "a"),
            "-np 3 processes cannot be divided into pods of --slots 2",
        ),
        (("-np", "2", "--image", "i"), "give the command that the pods run, after --"),
        (("-np", "2", "--", "a"), "give the image of the script with --image"),
        (
            ("-np", "2", "--image", "i", "--name", "A b", "--", "a"),
            "--name must be 1 to 40 characters of a-z, 0-9 and -",
        ),
        (
            ("-np", "2", "--image", "i", "--env", "1", "--", "a"),
            "--env must be NAME=VALUE, the name of letters, digits and _, not '1'",
        ),
        (("-np", "2", "--image", "i", "--memory", "much", "--", "a"), "--memory must be a quantity of Kubernetes"),
        (("-np", "2", "--image", "i", "--memory", "4ki", "--", "a"), "--memory must be a quantity of Kubernetes"),
        (("-np", "2", "--image", "i", "--shared-memory", "500m", "--", "a"), "--shared-memory must be a quantity"),
        (("-np", "2", "--max-np", "4", "--image", "i", "--", "a"), "--max-np is for elastic jobs: give --min-np, too"),
        (("-np", "2", "--min-np", "3", "--image", "i", "--", "a"), "--min-np 3, -np 2: they must not fall"),
        (
            ("-np", "4", "--min-np", "1", "--max-np", "3", "--image", "i", "--", "a"),
            "--min-np 1, -np 4, --max-np 3: they must not fall",
        ),
        (("-np", "0", "--image", "i", "--", "a"), "'0' is not a number of processes between 1 and 65536"),
        (("-np", "2", "--imag", "i", "--nonsense", "--", "a"), "--nonsense"),
    ],
)
def test_a_wrong_command_line_is_named(words: tuple[str, ...], complaint: str) -> None:
    done = farandole("render", *words)
    assert done.returncode == 2
    assert complaint in done.stderr, done.stderr
