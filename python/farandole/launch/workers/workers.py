"""The agent of a host, and what the launcher has it do. Who starts the workers differs: ranks.py, slots.py."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from farandole.launch.processes.agents import AgentSpec, LocalAgent
from farandole.launch.workers.lines import LineReader

Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class HostJob:
    """What is to run on a host.

    Attributes:
        spec: of the agent; its command is the workers', also where the agent does not start them.
        host: its name for the launcher.
        elastic: workers come and go, in slots; otherwise the agent starts those of the spec.
        environment: of agent and workers; on another host beside what a login there gives.
        folder: where they run.
        interfaces: names of network interfaces; where others find workers that come and go, if the spec does not say.
        function: what the host needs to call one (launch/function); None: it calls none.
        captured: lines of output are told; otherwise they go where ours go.
    """

    spec: AgentSpec
    host: str
    elastic: bool
    environment: Mapping[str, str]
    folder: str
    interfaces: Sequence[str] = ()
    function: dict[str, str] | None = None
    captured: bool = True

    def to_json(self) -> str:
        """For another host, on one line. It holds secrets."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> HostJob:
        """What `to_json` has made."""
        fields = json.loads(text)
        spec = fields.pop("spec")
        spec["local_sizes"], spec["command"] = tuple(spec["local_sizes"]), tuple(spec["command"])
        return cls(AgentSpec(**spec), **fields)


class Workers:
    """Agent and workers of one host, driven by commands, told of by events: dicts, so that ssh may lie between.

    Commands:
        {"do": "signal", "number": 15}                    to all workers; 9: nothing is to be left
        {"do": "start", "slot": 0}                        a worker in this slot (slots.py)
        {"do": "retire", "slot": 0, "grace_s": 300}       it leaves at its next commit, or is ended then; null: not

    Events, by the key "event":
        "output"     "stream", "text": lines, those of workers with "[N] " before them, N being the rank or the slot
        "note"       "text": to be said
        "function"   the folder of one was made
        "ready"      the agent runs
        "started", "ended"   of a slot: "slot", "pid"; "code", "killed", "how"
        "finished"   "code", "text": nothing runs here any more; a sentence unless it was said already

    Args:
        job: what runs.
        environment: all variables of the agent and the workers.
        tell: takes events.
    """

    def __init__(self, job: HostJob, environment: Mapping[str, str], tell: Tell) -> None:
        self._job, self._environment, self._tell = job, environment, tell
        self._agent: LocalAgent | None = None
        self._readers: list[LineReader] = []
        self.over = False

    def start(self) -> None:
        """Begins; `over` says whether that has failed."""
        try:
            if self._job.function is not None:
                # Other jobs do without what this brings.
                from farandole.launch.function import call_files

                if call_files.make_folder(self._job.function):
                    self._tell({"event": "function"})
            self._start_agent()
        except OSError as error:
            self._finish(1, str(error))

    def _start_agent(self) -> None:
        raise NotImplementedError

    def _run_agent(self, spec: AgentSpec, output: Sequence[int] = ()) -> None:
        self._agent = LocalAgent(spec, self._environment, self._note, output)
        if self._agent.start():
            self._tell({"event": "ready"})
        else:
            self._finish(1)

    def _note(self, sentence: str) -> None:
        self._tell({"event": "note", "text": sentence})

    def _finish(self, code: int, text: str = "") -> None:
        if not self.over:
            self.over = True
            self._tell({"event": "finished", "code": code, "text": text})

    def obey(self, command: Mapping[str, Any]) -> None:
        """Does what a command says."""
        raise NotImplementedError

    def waits_on(self, hold: bool) -> Sequence[socket.socket | LineReader]:
        """What to wait for before `poll`, besides SIGCHLD; `hold`: without output, which nobody takes at the moment."""
        agent = [] if self._agent is None else self._agent.waits_on()
        return agent if hold else [*agent, *self._readers]

    def poll(self, ready: set[int]) -> None:
        """Looks at what has happened; `ready` are descriptors among `waits_on`."""
        for reader in [reader for reader in self._readers if reader.pipe in ready]:
            self._show(reader, reader.read())
            if reader.ended:
                self._drop(reader)

    def _show(self, reader: LineReader, lines: bytes) -> None:
        if lines:
            text = lines.decode(errors="surrogateescape")
            self._tell({"event": "output", "stream": reader.stream, "text": text})

    def _drop(self, reader: LineReader) -> None:
        self._readers.remove(reader)
        reader.close()

    def _drop_last(self, readers: Sequence[LineReader]) -> None:
        """Of a process that has ended; others may hold its pipes open."""
        for reader in readers:
            if reader in self._readers:
                self._show(reader, reader.read_last())
                self._drop(reader)

    def give_up(self) -> None:
        """Has everything end; `over` says when it has."""
        raise NotImplementedError

    def end(self) -> None:
        """Returns when nothing is left."""
        self.over = True
        if self._agent is not None:
            self._agent.end()
            self._agent = None
        self._drop_last(list(self._readers))
