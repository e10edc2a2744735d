"""A job whose slots are fixed: as many ranks as were asked for, of which the first that fails ends the job."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from farandole.launch.hosts.addresses import LOOPBACK
from farandole.launch.hosts.hosts import HostRanks, is_local
from farandole.launch.job.driver import Driver
from farandole.launch.job.verdict import Verdict
from farandole.launch.processes.agents import AgentSpec
from farandole.launch.processes.child import end_leftovers
from farandole.launch.workers.workers import HostJob

# The controller tells ranks on other hosts of a failure; what has not ended after this time is ended, and what does not
# end by that is killed.
OTHERS_S = 3.0


class RankJob(Driver):
    """Each host's agent starts its ranks, and tells of the one that failed first.

    A controller or an agent that is killed is started again: the workers do not depend on either. They are children of
    this process, or of the one that stands for it on a remote host.
    """

    def _drive(self) -> Verdict:
        ranks = self._settings.ranks_by_host()
        remote = [each.host for each in ranks if not is_local(each.host)]
        answers = self._ask(remote) if remote else {}
        if self._signals.ended_by:
            return Verdict(128 + self._signals.ended_by)
        listen = self._listen_address()
        if answers is None or not self._control.start(listen, bool(remote)):
            return Verdict(1)
        self._control.show()
        for index, each in enumerate(ranks):
            self._start_host(self._job(index, each, answers), each.host not in answers)
        return self._wait()

    def _job(self, index: int, here: HostRanks, answers: Mapping[str, dict[str, Any]]) -> HostJob:
        settings, local = self._settings, here.host not in answers
        ours = self._control.own if local else self._own[here.host]
        # Otherwise the agent itself writes to our stdout and stderr.
        as_horovod = settings.prefix_output and settings.prefix_as_horovod
        captured = not local or settings.output_folder is not None or settings.timestamps or as_horovod
        spec = AgentSpec(
            job=self._control.job,
            controller=self._control.endpoint(ours),
            token=self._control.token(),
            certificate=self._control.certificate,
            first_rank=here.first_rank,
            local_sizes=tuple(each.local_size for each in settings.ranks_by_host()),
            host=index,
            data_address=next(iter(self._own.values()), LOOPBACK) if local else answers[here.host]["address"],
            prefix_output=settings.prefix_output or captured,
            command=self._command(here),
        )
        return HostJob(
            spec,
            here.host,
            elastic=False,
            environment=self._variables(local),
            folder=os.getcwd(),
            function=self._function(local),
            captured=captured,
        )

    def _command(self, here: HostRanks) -> tuple[str, ...]:
        """With our own stdin for one rank, and our stdout and stderr where these are a terminal: a prompt has no end of
        line. They are opened again by their names in /proc, as the agent starts all ranks alike."""
        rank = self._settings.stdin_rank
        if rank is None or not here.first_rank <= rank < here.first_rank + here.local_size:
            return self._settings.command
        signs = {0: "<", **{number: ">" for number in (1, 2) if os.isatty(number)}}
        opened = " ".join(f"{number}{sign}/proc/{os.getpid()}/fd/{number}" for number, sign in signs.items())
        script = f'[ "$FARANDOLE_RANK" != {rank} ] || exec {opened}; exec "$@"'
        return ("sh", "-c", script, "sh", *self._settings.command)

    def _wait(self) -> Verdict:
        """Until all hosts have finished, or the others have had their time after a failure."""
        self._running, self._code, self._failed_at = set(self._hosts), 0, float("inf")
        lost = False
        while self._running:
            while self._signals.pending and self._signals.pending[0] != signal.SIGKILL:
                self._tell_all(self._signals.pending.pop(0))
            if self._signals.pending:
                return Verdict(128 + signal.SIGKILL)
            if time.monotonic() - self._failed_at > OTHERS_S:
                break
            if not lost and not self._control.alive():
                lost = True
                self._signals.pending.append(signal.SIGTERM)
                continue
            self._turn(0.1 if self._code else 1.0)
        return Verdict(self._code or int(lost))

    def _handle(self, host: str, event: dict[str, Any]) -> None:
        self._running.discard(host)
        if event["code"] and not self._code:
            self._code, self._failed_at = event["code"], time.monotonic()
            self._explain(event["code"])

    def _end(self) -> None:
        super()._end()
        end_leftovers(f"FARANDOLE_JOB={self._control.job}")
