"""Traffic between two guests by channel_traffic, which checks every byte of it."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from guests import Command, Done, Guest

# Within which TCP notices that a machine is gone, in seconds: probes after 30 s of silence, and three more of 10 s each
# (transport/tcp/socket.cc).
TCP_BOUND_S = 60.0
FAILED = re.compile(r"failed (\S+) s after the last message: (.*)")


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
