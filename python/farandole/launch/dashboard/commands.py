"""``farandole dashboard``: watches one job and serves the page about it."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from farandole.launch.dashboard import server
from farandole.launch.dashboard.history import History
from farandole.launch.settings.flags import UsageError
from farandole.launch.status import query
from farandole.launch.status.jobs import Job, find

PER_SECOND = 2
# When the job is over and nobody has looked for so long, there is nothing left to serve.
LINGER_S = 600.0
LOOK_S = 0.5


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole dashboard: {sentence}", file=sys.stderr, flush=True)


def _watch(job: Job, history: History) -> None:
    """Fills the history until the job is over, or its controller refuses to tell more."""
    try:
        for answer in job.watch(PER_SECOND):
            if isinstance(answer, query.QueryError):
                history.lost(job.explain(answer))
            else:
                history.heard(answer)
    except query.QueryError as error:
        history.over("bad", f"the controller tells no more: {error}; start farandole dashboard again")
        say(str(error))
    else:
        history.over("note", f"job {job.target.job} is over")
        say(f"job {job.target.job} is over; the page stays until Ctrl-C, or until nobody looks at it for 10 minutes")


def _linger(serving: server.Server) -> None:
    looked = time.monotonic()
    while time.monotonic() - looked < LINGER_S:
        looked = time.monotonic() if serving.browsers else looked
        time.sleep(LOOK_S)


def _show(job: Job, address: tuple[str, int]) -> None:
    # A controller that cannot be asked at all is an error at once, and no page.
    job.get()
    history = History(job.target.job, job.command, job.target.controller)
    serving = server.Server(address, history)
    end = server.serving(serving)
    try:
        print(f"job {job.target.job} is shown at {serving.url} (Ctrl-C ends this)", flush=True)
        _watch(job, history)
        _linger(serving)
    finally:
        end()


def _terminate(*_: object) -> NoReturn:
    # The watch then ends the program that it reads from.
    raise KeyboardInterrupt


def _address(arguments: argparse.Namespace) -> tuple[str, int]:
    try:
        address = server.split_address(arguments.listen)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from None
    if not server.is_loopback(address[0]) and not arguments.insecure:
        raise UsageError(
            f"--listen: {address[0]} is beyond loopback, where the page would travel without TLS: forward a port "
            "(ssh -L, kubectl port-forward), or say --insecure if the network can be trusted"
        )
    return address


def run(arguments: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code."""
    return show(arguments, lambda: find(arguments))


def show(arguments: argparse.Namespace, find_jobs: Callable[[], list[Job]]) -> int:
    """Serves the page about the one job that there is, until Ctrl-C or its end; returns the exit code.

    Args:
        arguments: `listen` and `insecure`; `name` for what is said.
        find_jobs: finds it.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        address = _address(arguments)
        jobs = find_jobs()
        if not jobs:
            say(f"no job of this user on this host begins with {arguments.name!r}" if arguments.name else "no job runs")
            return 1
        if len(jobs) > 1:
            say(f"{len(jobs)} jobs run here; name one of them: {', '.join(job.target.job for job in jobs)}")
            return 2
        _show(jobs[0], address)
    except UsageError as error:
        say(str(error))
        return 2
    except query.QueryError as error:
        say(jobs[0].explain(error))
        return 2 if error.code == query.USAGE else 1
    except OSError as error:
        say(f"{arguments.listen}: {error}" if not isinstance(error, FileNotFoundError) else str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
