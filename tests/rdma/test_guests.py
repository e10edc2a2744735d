"""The emulated machines themselves: what later tests of RDMA rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import image
import processes
import pytest
from guests import Guest, GuestError, Guests

CONFORMANCE = image.ROOT / "bazel-bin/tests/conformance"
PORT = "/sys/class/infiniband/rxe0/ports/1"
MESSAGES = 50


def gids(guest: Guest) -> dict[str, str]:
    """The addresses in the table of the guest's device, and of what type each is."""
    table = f"for n in 0 1 2; do echo $(cat {PORT}/gids/$n {PORT}/gid_attrs/types/$n); done"
    lines = guest.check(table).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def ping_pong(server: Guest, client: Guest, gid: int = 1, messages: int = MESSAGES) -> tuple[str, str]:
    """What both sides print of messages over a reliable connection, whose addresses they exchange over TCP."""
    command = f"ibv_rc_pingpong -d rxe0 -g {gid} -n {messages}"
    serving = server.start(f"{command} 2>&1")
    server.wait_for_listener(18515)
    said = client.check(f"{command} {server.address()}")
    done = serving.wait()
    assert done.status == 0, done.output
    return done.output, said


def test_the_device_is_active_with_its_addresses(pair: Guests) -> None:
    for guest in pair:
        loaded = guest.check("cat /proc/modules")
        assert {"rdma_rxe", "ib_uverbs"} <= {line.split()[0] for line in loaded.splitlines()}
        assert "link rxe0/1 state ACTIVE physical_state LINK_UP netdev eth0" in guest.check("rdma link")
        said = guest.check("ibv_devinfo -d rxe0")
        assert "PORT_ACTIVE" in said and "4096 (5)" in said.split("active_mtu")[1].splitlines()[0]
        number = guest.number + 1
        assert gids(guest) == {
            f"fe80:0000:0000:0000:5054:00ff:fe09:{number:04x}": "RoCE v2",
            f"0000:0000:0000:0000:0000:ffff:0a09:{number:04x}": "RoCE v2",
            f"fd09:0000:0000:0000:0000:0000:0000:{number:04x}": "RoCE v2",
        }


def test_messages_pass_inside_one_guest(lone: Guests) -> None:
    server, client = ping_pong(lone[0], lone[0])
    assert f"{MESSAGES} iters" in server and f"{MESSAGES} iters" in client


@pytest.mark.parametrize("gid", [0, 1, 2], ids=["link-local", "IPv4", "IPv6"])
def test_messages_pass_between_guests(pair: Guests, gid: int) -> None:
    server, client = ping_pong(pair[0], pair[1], gid)
    assert f"{MESSAGES} iters" in server and f"{MESSAGES} iters" in client


def test_commands_report_status_output_and_signals(lone: Guests) -> None:
    (guest,) = lone
    done = guest.run("echo out; echo err >&2; exit 3")
    assert done.status == 3 and done.output.split() == ["out", "err"]
    with pytest.raises(GuestError, match="says 3"):
        guest.check("exit 3")
    running = guest.start("echo begun; sleep 1000 & wait")
    running.wait_for("begun")
    assert not running.ended()
    with pytest.raises(GuestError, match="still runs"):
        running.wait(0.05)
    running.kill()
    assert running.wait().status == 128 + 9
    assert "sleep 1000" not in guest.check("ps")


def test_programs_of_ours_run_in_a_guest(lone: Guests) -> None:
    (guest,) = lone
    for name, cases, passed in (("tcp_test", "*", 11), ("pairing_test", "*/tcp:*/tcp6", 20)):
        lone.install(CONFORMANCE / name)
        said = guest.check(f"{name} --gtest_filter='{cases}'")
        assert f"[  PASSED  ] {passed} tests." in said, said


def test_a_link_goes_down_and_up(pair: Guests) -> None:
    guest, other = pair
    guest.set_link(False)
    guest.check("until rdma link | grep -q 'state DOWN'; do usleep 20000; done", timeout_s=30)
    assert other.run(f"ping -c 1 -W 1 {guest.address()}").status == 1
    assert "state ACTIVE" in other.check("rdma link")
    guest.set_link(True)
    guest.check("until rdma link | grep -q 'state ACTIVE'; do usleep 20000; done", timeout_s=30)
    other.check(f"ping -c 1 -W 10 {guest.address()}")


def test_a_paused_guest_is_silent_and_goes_on(pair: Guests) -> None:
    guest, other = pair
    guest.pause()
    assert other.run(f"ping -c 1 -W 1 {guest.address()}").status == 1
    guest.resume()
    other.check(f"ping -c 1 -W 10 {guest.address()}")
    assert guest.check("echo here") == "here\n"


def wait_for_count(guest: Guest, name: str, more: int) -> None:
    """Waits until the device of the guest has counted so many more."""
    count = f"cat {PORT}/hw_counters/{name}"
    wanted = int(guest.check(count)) + more
    guest.check(f"until [ $({count}) -ge {wanted} ]; do usleep 20000; done")


def test_nobody_is_told_that_a_guest_was_killed(pair: Guests) -> None:
    """What a transport has to know. A sender that has set the number of retries to 7, as the tools do, waits for ever:
    the driver of Soft-RoCE takes that for any number. And the device stays as it was."""
    survivor, victim = pair
    command = "ib_write_bw -d rxe0 -x 1 -D 1000 -F -s 4096 -p 18516"
    server = victim.start(command)
    victim.wait_for_listener(18516)
    client = survivor.start(f"{command} {victim.address()}")
    wait_for_count(survivor, "rcvd_pkts", 100)
    victim.kill()
    with pytest.raises(GuestError, match="ended before the command"):
        server.wait()
    with pytest.raises(GuestError, match="cannot be told"):
        victim.check("true")
    wait_for_count(survivor, "completer_retry_err", 9)
    assert not client.ended(), client.output
    client.kill()
    assert "state ACTIVE" in survivor.check("rdma link") and "LOWER_UP" in survivor.check("ip link show eth0")
    ping_pong(pair.boot(1), survivor)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_starter_that_ends(tmp_path: Path, number: signal.Signals) -> None:
    """Also when it has not got as far as to use them."""
    starter = [sys.executable, "-c", "from guests import Guests\nwith Guests(2): pass"]
    mark = f"TMPDIR={tmp_path}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(starter, env=environment, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while len(processes.marked(mark)) < 3:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        process.wait(30)
    assert not processes.wait_until_gone(mark, timeout_s=30)
    if number == signal.SIGINT:
        assert not list(tmp_path.iterdir())
