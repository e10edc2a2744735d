"""The jobs that a command line asks for, and the way to each of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from farandole.launch.settings.flags import UsageError
from farandole.launch.status import job_files, query, view

# Behind the name of a namespace, in the place of a job's name: all of its jobs.
ALL_JOBS = ".*"
# A controller that is started again answers within this time; its agents are back at once.
AGAIN_S = 0.25
# Each question is a connection, and two lines of the audit log.
WITHOUT_AGENT_AGAIN_S = 1.0
# A job of a deployed controller without an agent for so long is over. The controller itself waits 30 s for an agent
# that is silent: one of a job that goes on is back by then, and so is the next pod of an elastic one.
WITHOUT_AGENT_S = 45.0


class Job:
    """One job and the way to it; `file` is None for that of a deployed controller.

    Args:
        clock: seconds.
        listed: what the controller's list of jobs said of it, a JobSummary.
    """

    def __init__(
        self,
        target: query.Target,
        file: job_files.JobFile | None,
        clock: Callable[[], float] = time.monotonic,
        listed: dict[str, Any] | None = None,
    ) -> None:
        self.target = target
        self.file = file
        self._clock = clock
        self._listed = listed
        self.command: Sequence[str] = file.command if file else ()

    def over(self) -> bool:
        """Whether its launcher has ended it."""
        return self.file is not None and self.file.over()

    def explain(self, error: query.QueryError) -> str:
        """What it means that there is no answer."""
        if self.over():
            return "it has just ended"
        if self.file is None or error.code not in (query.NO_ANSWER, query.NO_JOB):
            return str(error)
        if error.code == query.NO_JOB:
            return "its controller runs, its agent has not connected yet"
        return f"{error}; the launcher (pid {self.file.pid}) starts it again, the ranks go on without it meanwhile"

    def get(self) -> dict[str, Any]:
        """The status; waits a moment for an agent that is about to connect."""
        try:
            return self.target.get()
        except query.QueryError as error:
            if self.file is None or error.code != query.NO_JOB:
                raise
        time.sleep(2 * AGAIN_S)
        return self.target.get()

    def summary(self) -> dict[str, Any]:
        """The status in short, a JobSummary: as `find` has seen it where there was a list, or as of now."""
        return self._listed if self._listed is not None else view.summarize(self.get())

    def watch(
        self, per_second: int, enough: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, Any] | query.QueryError]:
        """Statuses, and once per outage each reason why there is none; ends when the job is over, or it is `enough`."""
        seen, said = False, set[int]()
        without_agent: float | None = None  # since when
        while not self.over() and not enough():
            try:
                for status in self.target.watch(per_second):
                    seen, without_agent = True, None
                    said.clear()
                    yield status
            except query.QueryError as error:
                if error.code not in (query.NO_ANSWER, query.NO_JOB):
                    raise
                if self.file is None and error.code == query.NO_JOB:
                    if not seen:
                        raise
                    without_agent = self._clock() if without_agent is None else without_agent
                    if self._clock() - without_agent > WITHOUT_AGENT_S:
                        return
                    error = self._no_agent()
                else:
                    without_agent = None
                if error.code not in said and not self.over():
                    said.add(error.code)
                    yield error
                time.sleep(AGAIN_S if without_agent is None else WITHOUT_AGENT_AGAIN_S)

    def _no_agent(self) -> query.QueryError:
        wait = f"it counts as over after {WITHOUT_AGENT_S:g} s without one"
        return query.QueryError(query.NO_JOB, f"no agent of job {self.target.job} is connected; {wait}")


def _pinned(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise UsageError(f"--tls-pinned: {error}") from None


def find(arguments: argparse.Namespace) -> list[Job]:
    """Those of this user on this host, oldest first, or that of a deployed controller, or those of a namespace there.

    Args:
        arguments: the flags that `farandole status` and `farandole dashboard` share.

    Raises:
        UsageError: they do not go together, or name a file that cannot be read.
        query.QueryError: a deployed controller does not say which jobs it has.
    """
    deployed = [arguments.controller, arguments.job, arguments.token_file]
    if any(deployed):
        if not all(deployed) or arguments.name:
            raise UsageError("--controller, --job and --token-file go together, and without a JOB of this host")
        if arguments.tls_ca and arguments.tls_pinned:
            raise UsageError("--tls-ca and --tls-pinned exclude each other")
        if bool(arguments.tls_cert) != bool(arguments.tls_key) or (arguments.tls_cert and not arguments.tls_ca):
            raise UsageError("--tls-cert and --tls-key go together, and with --tls-ca")
        target = query.Target(
            arguments.job,
            arguments.controller,
            token_file=arguments.token_file,
            tls_ca=arguments.tls_ca,
            tls_cert=arguments.tls_cert,
            tls_key=arguments.tls_key,
            certificate=_pinned(arguments.tls_pinned) if arguments.tls_pinned else "",
            insecure=arguments.insecure,
        )
        if not target.job.endswith(ALL_JOBS):
            return [Job(target, None)]
        return [Job(replace(target, job=listed["job"]), None, listed=listed) for listed in target.list()]
    files = [f for f in job_files.read_all() if not arguments.name or f.job.startswith(arguments.name)]
    return [Job(query.Target(f.job, f.controller, token=f.token, certificate=f.certificate), f) for f in files]


def none_found(arguments: argparse.Namespace) -> str:
    """What it means that `find` has found none."""
    if arguments.job:
        return (
            f"the controller at {arguments.controller} has no job of namespace {arguments.job.removesuffix(ALL_JOBS)}"
        )
    if arguments.name:
        return f"no job of this user on this host begins with {arguments.name!r}"
    return "no job of this user runs on this host"
