"""Channels over RDMA on the real driver: what they promise inside one machine, and faults between two."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import image
import pytest
from guests import Command, Done, Guest, Guests

BIN = image.ROOT / "bazel-bin/tests"
# In seconds. That a process has ended is noticed at once. That a machine is gone, by probes of TCP: after 30 s and
# three more of 10 s each (transport/tcp/socket.cc); the rest is for this machine, which may be busy.
PROCESS_BOUND_S = 2.0
MACHINE_BOUND_S = 60.0 + 5.0
FAILED = re.compile(r"failed (\S+) s after the last message: (.*)")

# Which cases of programs run on the real driver. Left out is what takes ten seconds and more: meetings of hundreds of
# ends, closing a hundred times; and several queue pairs where the driver is asked nothing else than with one.
CONFORMANCE = {
    "conformance/pairing_test": "--gtest_filter=*/verbs-*ManyMeet*",
    "conformance/channel_test": "--gtest_filter=*/verbs:*ManyChannels*/verbsx3:*DiscardDrops*/verbsx3",
    "conformance/ending_test": "--gtest_filter=*/verbs:*CloseEndsWhat*/verbsx3-*BothEndsClose*",
    "metamorphic/metamorphic_test": "--gtest_filter=*/4 --histories=3",
}


def traffic(guest: Guest, arguments: str) -> Command:
    """One end of traffic that goes on until it is told to end."""
    # The shell makes way, so that a signal reaches the program.
    return guest.start(f"ulimit -l unlimited; exec channel_traffic {arguments}")


def rounds(command: Command) -> int:
    """How many it is done with."""
    return command.output.count("round ")


@dataclass
class Flow:
    """Both ends of traffic. The client sends; the server, too, if it goes both ways."""

    server: Command
    client: Command

    @property
    def ends(self) -> tuple[Command, Command]:
        """Both."""
        return self.server, self.client

    def goes_on(self) -> None:
        """Waits until both ends are done with some more."""
        for end in self.ends:
            end.wait_for(f"round {rounds(end) + 3}\n")

    def ends_well(self) -> None:
        """Ends it: nothing was lost or wrong."""
        self.client.kill(signal.SIGTERM)
        for end in self.ends:
            done = end.wait()
            assert done.status == 0 and done.output.endswith("ended well\n"), done.output


def start_flow(medium: str, server: Guest, client: Guest, how: str) -> Flow:
    """Traffic that has begun: `how` it goes is one way or both."""
    serving = traffic(server, f"{medium} {server.address()} {how}")
    address = serving.wait_for("\n").splitlines()[0]
    flow = Flow(serving, traffic(client, f"{medium} {client.address()} {how} {address}"))
    flow.goes_on()
    return flow


def silence_s(done: Done, peer: str) -> float:
    """How long it took an end to notice that its peer, which it must name, was gone."""
    failed = FAILED.search(done.output)
    assert failed and done.status == 1, done.output
    assert failed[2].startswith("UNAVAILABLE: ") and peer in failed[2], done.output
    return float(failed[1])


@dataclass
class Loss:
    """What a guest that was killed has left: its peer, and of each kind the peer's end of traffic with it, and the name
    of the end that is gone."""

    survivor: Guest
    ends: dict[str, tuple[Command, str]]


@pytest.fixture(scope="module")
def loss() -> Iterator[Loss]:
    """All have noticed after a minute. Other tests use the survivor meanwhile."""
    with Guests(2, cpus=2) as guests:
        survivor, victim = guests
        for program in ("rdma/channel_traffic", *CONFORMANCE):
            guests.install(BIN / program)
        ends = {
            f"{medium} receives": (start_flow(medium, survivor, victim, "one").server, "client")
            for medium in ("verbs", "tcp")
        }
        ends["verbs sends"] = (start_flow("verbs", victim, survivor, "one").client, "server")
        victim.kill()
        yield Loss(survivor, ends)


@pytest.fixture(scope="module")
def two(pair: Guests) -> tuple[Guest, Guest]:
    """Two guests that have the program."""
    pair.install(BIN / "rdma/channel_traffic")
    first, second = pair
    return first, second


def test_the_choice_is_the_port_of_the_address(two: tuple[Guest, Guest]) -> None:
    """Which --check-build and the status print."""
    for guest in two:
        number = guest.number + 1
        for address, gid in (
            (guest.address(), f"1 = ::ffff:10.9.0.{number}"),
            (guest.address6(), f"2 = fd09::{number}"),
        ):
            said = guest.check(f"ulimit -l unlimited; channel_traffic verbs {address}")
            assert said == f"RDMA over rxe0 port 1 (RoCE v2, GID {gid}, MTU 4096)\n"


@pytest.mark.parametrize("program", CONFORMANCE, ids=lambda program: program.split("/")[1])
def test_channels_and_collectives_inside_one_machine(loss: Loss, program: str) -> None:
    real = f"FARANDOLE_TEST_VERBS=real FARANDOLE_TEST_HOST={loss.survivor.address()}"
    command = f"ulimit -l unlimited; {real} {program.split('/')[1]} {CONFORMANCE[program]}"
    done = loss.survivor.run(command, timeout_s=300)
    assert done.status == 0 and "[  PASSED  ]" in done.output, done.output


@pytest.mark.parametrize("dies", ["server", "client"])
def test_a_killed_process_is_noticed_at_once(two: tuple[Guest, Guest], dies: str) -> None:
    flow = start_flow("verbs", *two, "both")
    killed, other = flow.ends if dies == "server" else reversed(flow.ends)
    killed.kill()
    assert silence_s(other.wait(), dies) < PROCESS_BOUND_S
    killed.wait()


def test_traffic_outlives_a_link_that_is_down(two: tuple[Guest, Guest]) -> None:
    guest, _ = two
    flow = start_flow("verbs", *two, "both")
    guest.set_link(False)
    guest.check("until rdma link | grep -q 'state DOWN'; do usleep 20000; done", timeout_s=30)
    before = rounds(flow.client)
    guest.check("sleep 2")
    assert rounds(flow.client) <= before + 1
    guest.set_link(True)
    flow.goes_on()
    flow.ends_well()


def test_traffic_outlives_a_machine_that_stands_still(two: tuple[Guest, Guest]) -> None:
    guest, other = two
    flow = start_flow("verbs", *two, "both")
    guest.pause()
    other.check("sleep 4")
    guest.resume()
    flow.goes_on()
    flow.ends_well()


def test_a_killed_machine_is_noticed_as_soon_as_over_tcp(loss: Loss) -> None:
    for kind, (end, peer) in loss.ends.items():
        took_s = silence_s(end.wait(MACHINE_BOUND_S + 60), peer)
        assert took_s < MACHINE_BOUND_S, kind
