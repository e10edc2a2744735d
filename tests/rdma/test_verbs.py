"""Channels over RDMA on the real driver: what they promise inside one machine, and faults between two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import flows
import image
import pytest
from flows import silence_s, start_flow
from guests import Command, Guest, Guests

BIN = image.ROOT / "bazel-bin/tests"
TRAFFIC = BIN / "rdma/channel_traffic"
# In seconds. That a process has ended is noticed at once; that a machine is gone, within the bound, and some more on a
# machine that may be busy.
PROCESS_BOUND_S = 2.0
MACHINE_BOUND_S = flows.TCP_BOUND_S + 5.0

# Which cases of programs run on the real driver. Left out is what takes ten seconds and more: meetings of hundreds of
# ends, closing a hundred times; and several queue pairs where the driver is asked nothing else than with one.
CONFORMANCE = {
    "conformance/pairing_test": "--gtest_filter=*/verbs-*ManyMeet*",
    "conformance/channel_test": "--gtest_filter=*/verbs:*ManyChannels*/verbsx3:*DiscardDrops*/verbsx3",
    "conformance/ending_test": "--gtest_filter=*/verbs:*CloseEndsWhat*/verbsx3-*BothEndsClose*",
    "metamorphic/metamorphic_test": "--gtest_filter=*/4 --histories=3",
}


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
        for program in (TRAFFIC, *(BIN / name for name in CONFORMANCE)):
            guests.install(program)
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
    pair.install(TRAFFIC)
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
    before = flows.rounds(flow.client)
    guest.check("sleep 2")
    assert flows.rounds(flow.client) <= before + 1
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
