from __future__ import annotations

import os
import time
from pathlib import Path

import processes
import pytest

from farandole.launch.job import discovery as discovery_module
from farandole.launch.job.discovery import (
    LIMIT_S,
    PERIOD_S,
    DiscoveryError,
    FixedHosts,
    HostDiscoveryScript,
    RepeatedDiscovery,
)


def script(folder: Path, body: str) -> str:
    path = folder / "discover.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_fixed_hosts() -> None:
    hosts = FixedHosts({"a": 2})
    assert hosts.find_available_hosts_and_slots() == {"a": 2}
    hosts.set({"b": 1})
    assert hosts.find_available_hosts_and_slots() == {"b": 1}


def test_lines_of_a_script(tmp_path: Path) -> None:
    path = script(tmp_path, "echo b:3; echo; echo '  a  '; echo user@c:1; echo d:0")
    found = HostDiscoveryScript(path, 2).find_available_hosts_and_slots()
    assert list(found.items()) == [("b", 3), ("a", 2), ("user@c", 1), ("d", 0)]


def test_a_script_that_prints_nothing(tmp_path: Path) -> None:
    assert HostDiscoveryScript(script(tmp_path, "true"), 1).find_available_hosts_and_slots() == {}


@pytest.mark.parametrize("line", ["a:b", "a:-1", "a b:2", ":3", "a:", "a:99999999", "/:1", "-oX:1", "a/../b"])
def test_lines_that_make_no_sense(tmp_path: Path, line: str) -> None:
    with pytest.raises(DiscoveryError, match="printed"):
        HostDiscoveryScript(script(tmp_path, f"echo '{line}'"), 1).find_available_hosts_and_slots()


@pytest.mark.parametrize("digits", [10, 5000])
def test_a_long_number_of_slots(tmp_path: Path, digits: int) -> None:
    with pytest.raises(DiscoveryError, match="with at most"):
        HostDiscoveryScript(script(tmp_path, f"echo a:{'1' * digits}"), 1).find_available_hosts_and_slots()


def test_an_address_in_brackets(tmp_path: Path) -> None:
    found = HostDiscoveryScript(script(tmp_path, "echo '[fe80::1]:2'"), 1).find_available_hosts_and_slots()
    assert found == {"fe80::1": 2}


def test_a_host_without_slots_when_there_is_no_default(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match="--slots-per-host"):
        HostDiscoveryScript(script(tmp_path, "echo a"), None).find_available_hosts_and_slots()


@pytest.mark.parametrize(
    ("body", "how"), [("echo a:1; exit 3", "exited with code 3"), ("kill -9 $$", "137"), ("no-such-program", "127")]
)
def test_a_script_that_fails(tmp_path: Path, body: str, how: str) -> None:
    with pytest.raises(DiscoveryError, match=how):
        HostDiscoveryScript(script(tmp_path, body), 1).find_available_hosts_and_slots()


@pytest.mark.parametrize("name", ["nosuch", "./discover.sh"])
def test_a_script_that_cannot_be_run_ends_the_job(tmp_path: Path, name: str) -> None:
    (tmp_path / "discover.sh").touch(0o644)
    command = processes.launch_command(2, "true", options=("--host-discovery-script", name))
    with processes.running(command, tmp_path) as job, processes.Stopwatch() as watch:
        assert job.wait() == 1, job.report()
    assert watch.seconds < 10
    assert f"the discovery script '{name}' cannot be run (exit code 12" in job.stderr


def test_a_script_that_is_killed() -> None:
    for number, name in ((9, "SIGKILL"), (40, "signal 40")):
        with pytest.raises(DiscoveryError, match=f"was killed by {name}"):
            HostDiscoveryScript(f"kill -{number} $$", 1).find_available_hosts_and_slots()


def test_a_script_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    path = script(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
    started = time.monotonic()
    with pytest.raises(DiscoveryError, match=r"longer than 0\.5 s"):
        HostDiscoveryScript(path, 1, timeout_s=0.5).find_available_hosts_and_slots()
    assert time.monotonic() - started < 30
    child = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    deadline = time.monotonic() + 10
    while child.exists() and child.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_script_leaves_is_killed_while_its_number_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later the number may be another process's."""
    states = []

    def kill(group: int, number: int) -> None:
        states.append(Path(f"/proc/{group}/stat").read_text().split()[2])
        kill_group(group, number)

    kill_group = os.killpg
    monkeypatch.setattr(os, "killpg", kill)
    assert HostDiscoveryScript("sleep 1000 >&- & echo a:1", 1).find_available_hosts_and_slots() == {"a": 1}
    assert states == ["Z"]


def test_a_script_that_goes_on_without_output_is_ended() -> None:
    assert HostDiscoveryScript("echo a:1; exec sleep 1000 >&-", 1).find_available_hosts_and_slots() == {"a": 1}


def poll_until(discovery: RepeatedDiscovery, now: float, done: object) -> dict[str, int] | None:
    """Polls at one time, while the script runs, until it has found something or `done()`."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = discovery.poll(now)
        if found is not None or done():
            return found
        time.sleep(0.005)
    raise AssertionError("nothing")


def test_discovery_beside_other_work(tmp_path: Path) -> None:
    said: list[str] = []
    hosts = tmp_path / "hosts"
    hosts.write_text("a:1")
    discovery = RepeatedDiscovery(HostDiscoveryScript(f"cat {hosts}", 1), said.append)
    assert poll_until(discovery, 0.0, lambda: False) == {"a": 1}
    # Not before its time.
    assert discovery.poll(PERIOD_S / 2) is None and not discovery.readers()
    hosts.unlink()
    for turn in (1, 2):
        assert discovery.poll(turn * PERIOD_S) is None
        poll_until(discovery, turn * PERIOD_S, lambda: not discovery.readers())
    # Once for both.
    (complaint,) = said
    assert "going on with the hosts that are known" in complaint
    hosts.write_text("a:2")
    assert poll_until(discovery, 3 * PERIOD_S, lambda: False) == {"a": 2}


def test_what_is_missing_once_is_still_there(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    discovery = RepeatedDiscovery(HostDiscoveryScript(f"cat {hosts}", 1), print)
    turns = [
        ("a:2\nb:1", {"a": 2, "b": 1}),
        # The file is being written.
        ("", {"a": 2, "b": 1}),
        ("a:2", {"a": 2}),
        ("a:2\nb:1", {"a": 2, "b": 1}),
        # What is new is there at once.
        ("c:3\na:1", {"c": 3, "a": 2, "b": 1}),
        ("c:3\na:1", {"c": 3, "a": 1}),
        ("", {"c": 3, "a": 1}),
        ("", {}),
    ]
    for turn, (text, expected) in enumerate(turns):
        hosts.write_text(text)
        assert poll_until(discovery, turn * PERIOD_S, lambda: False) == expected, turn


def test_a_script_that_prints_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is ended at the bound, alone and beside other work, and not read any further."""
    bound = 1 << 17
    monkeypatch.setattr(discovery_module, "OUTPUT_BYTES_MAX", bound)
    endless = HostDiscoveryScript(f"echo $$ >> {tmp_path}/pids; exec yes host:1", 1)
    with pytest.raises(DiscoveryError, match=f"prints more than {bound} bytes"):
        endless.find_available_hosts_and_slots()
    said: list[str] = []
    discovery = RepeatedDiscovery(endless, said.append)
    assert poll_until(discovery, 0.0, lambda: said) is None
    assert f"prints more than {bound} bytes; no host is known yet" in said[0] and not discovery.readers()
    assert not any(Path(f"/proc/{pid}").exists() for pid in (tmp_path / "pids").read_text().split())


def test_too_many_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery_module, "SLOTS_OF_ALL_MAX", 5)
    path = script(tmp_path, "echo a:3; echo b:2")
    assert HostDiscoveryScript(path, 1).find_available_hosts_and_slots() == {"a": 3, "b": 2}
    with pytest.raises(DiscoveryError, match="printed more than 5 slots"):
        HostDiscoveryScript(script(tmp_path, "echo a:3; echo b:3"), 1).find_available_hosts_and_slots()
    with pytest.raises(DiscoveryError, match=f"at most {discovery_module.SLOTS_MAX} slots"):
        HostDiscoveryScript(script(tmp_path, "echo a:65536"), 1).find_available_hosts_and_slots()


def test_discovery_that_hangs_is_ended_and_tried_again(tmp_path: Path) -> None:
    said: list[str] = []
    wait = tmp_path / "wait"
    wait.touch()
    discovery = RepeatedDiscovery(
        HostDiscoveryScript(f"if [ -e {wait} ]; then sleep 1000; fi; echo a:1", 1), said.append
    )
    assert discovery.poll(0.0) is None and discovery.readers()
    assert discovery.poll(LIMIT_S) is None and discovery.readers()
    assert discovery.poll(LIMIT_S + 0.1) is None and not discovery.readers()
    assert f"took longer than {LIMIT_S:g} s" in said[0] and "no host is known yet" in said[0]
    wait.unlink()
    assert poll_until(discovery, LIMIT_S + 1, lambda: False) == {"a": 1}
    discovery.stop()


def test_a_script_that_vanishes_ends_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    path = script(tmp_path, "echo a:1")
    discovery = RepeatedDiscovery(HostDiscoveryScript(path, None), said.append)
    assert poll_until(discovery, 0.0, lambda: False) == {"a": 1}
    os.unlink(path)
    for turn in (1, 2):
        assert discovery.poll(turn * PERIOD_S) is None
        poll_until(discovery, turn * PERIOD_S, lambda: not discovery.readers())
    (complaint,) = said
    assert "cannot be run" in complaint and "going on with the hosts that are known" in complaint
