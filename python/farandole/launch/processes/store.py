"""What the launcher keeps for an agent that takes over from a killed one.

The other end is agent/launcher/launcher_store.h.
"""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass, field

PACKET_BYTES_MAX = 8192
DESCRIPTORS_MAX = 2
# An agent reads what it is handed as soon as it runs.
HAND_OVER_S = 20.0


@dataclass
class Entry:
    """One line, and descriptors that belong to it."""

    value: bytes
    descriptors: list[int] = field(default_factory=list)

    def close(self) -> None:
        """Closes the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class Store:
    """Entries by key, with descriptors, which the agents of one run put one after the other.

    The keys ``worker RANK`` are the launcher's business too: their values are the pids of the workers. These are
    children of the launcher, not of the agent, so that they outlive it; they are killed with the launcher. Ended ones
    are not waited for before `close`: so the next agent can still see how they ended, and their numbers stay theirs.
    """

    def __init__(self) -> None:
        self.ready = False  # the present agent has started all workers and handles signals
        self.complete = True  # everything that agents have put is there
        self._entries: dict[bytes, Entry] = {}
        self._ended: list[bytes] = []  # keys of workers, in the order of their ends as far as that was seen
        self._socket: socket.socket | None = None

    def connect(self) -> socket.socket:
        """The end for a new agent; the caller closes it once the agent has it."""
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return other

    def hand_over(self) -> None:
        """Tells the new agent all entries; returns early if it has ended."""
        workers = [key for key in self._entries if key.startswith(b"worker ") and key not in self._ended]
        others = [key for key in self._entries if not key.startswith(b"worker ")]
        assert self._socket is not None  # since `connect`
        self._socket.settimeout(HAND_OVER_S)
        try:
            for key in [*self._ended, *workers, *others]:
                entry = self._entries[key]
                socket.send_fds(self._socket, [b"put\n" + entry.value + b"\n" + key], entry.descriptors)
            self._socket.send(b"end")
        except OSError:
            pass  # what has become of the agent is seen by waiting for it
        self._socket.setblocking(False)

    def retire(self, pid: int) -> None:
        """Tells the agent that a worker of an elastic job is to leave."""
        try:
            if self._socket is not None:
                self._socket.send(b"retire\n%d" % pid)
        except OSError:
            pass

    def waits_on(self) -> list[socket.socket]:
        """What to select on before `read`."""
        return [] if self._socket is None else [self._socket]

    def read(self) -> None:
        """Takes what the agent has said since."""
        while self._socket is not None:
            try:
                data, descriptors, flags, _ = socket.recv_fds(
                    self._socket, PACKET_BYTES_MAX, DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError:
                data, descriptors, flags = b"", [], 0
            if not data:
                self._socket.close()
                self._socket = None
                break
            self.complete = self.complete and not flags & socket.MSG_CTRUNC
            self._take(data, descriptors)
        self._note_ends()

    def _take(self, data: bytes, descriptors: list[int]) -> None:
        verb, *rest = data.split(b"\n", 2)
        if verb == b"ready":
            self.ready = True
        elif verb == b"put" and len(rest) == 2:
            old = self._entries.get(rest[1])
            # The old place: a dict keeps it.
            self._entries[rest[1]] = Entry(rest[0], descriptors)
            if old is not None:
                old.close()
        elif verb == b"drop" and len(rest) == 2:
            for key in [key for key in self._entries if key.startswith(rest[1])]:
                self._entries.pop(key).close()

    def _note_ends(self) -> None:
        for key, entry in self._entries.items():
            if key.startswith(b"worker ") and key not in self._ended:
                options = os.WEXITED | os.WNOHANG | os.WNOWAIT
                if os.waitid(os.P_PID, int(entry.value), options) is not None:
                    self._ended.append(key)

    def disconnect(self) -> None:
        """The agent has ended. A worker that it was just starting either is among the entries after this, or cannot
        say that it is there any more, and ends."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RD)
        self.read()
        self.ready = False

    def workers(self) -> list[int]:
        """Pids of all workers that were started, also of those that have ended."""
        return [int(entry.value) for key, entry in self._entries.items() if key.startswith(b"worker ")]

    def kill_workers(self) -> None:
        """SIGKILL to the workers and to what they have started in their process groups."""
        for pid in self.workers():
            try:
                os.killpg(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass

    def close(self) -> None:
        """Kills the workers that are left, and forgets everything."""
        self.disconnect()
        self.kill_workers()
        for pid in self.workers():
            os.waitpid(pid, 0)
        for entry in self._entries.values():
            entry.close()
        self._entries.clear()
