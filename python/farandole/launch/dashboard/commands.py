"""``farandole dashboard``: watches a job, or several, and serves the page about them."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from farandole.launch.dashboard import server
from farandole.launch.dashboard.history import History
from farandole.launch.dashboard.job_table import JobTable
from farandole.launch.settings.flags import UsageError
from farandole.launch.status import query
from farandole.launch.status.jobs import ALL_JOBS, Job, find, none_found

PER_SECOND = 2
# When the job is over and nobody has looked for so long, there is nothing left to serve.
LINGER_S = 600.0
LOOK_S = 0.5
# A list of jobs is made again so often, while somebody looks.
LIST_S = 5.0


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole dashboard: {sentence}", file=sys.stderr, flush=True)


def _watch(job: Job, history: History) -> str:
    """Fills the history until that is closed, the job is over, or its controller refuses to tell more.

    Returns:
        What is to be said of the end.
    """
    try:
        for answer in job.watch(PER_SECOND, lambda: history.closed):
            if history.closed:
                break
            if isinstance(answer, query.QueryError):
                history.lost(job.explain(answer), answer.code == query.NO_JOB)
            else:
                history.heard(answer)
    except query.QueryError as error:
        history.over("bad", f"the controller tells no more: {error}; start farandole dashboard again")
        return str(error)
    if history.closed:
        return ""
    history.over("note", f"job {job.target.job} is over")
    return f"job {job.target.job} is over; the page stays until Ctrl-C, or until nobody looks at it for 10 minutes"


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
        say(_watch(job, history))
        _linger(serving)
    finally:
        end()


def _show_all(where: str, jobs: list[Job], find_jobs: Callable[[], list[Job]], address: tuple[str, int]) -> NoReturn:
    table = JobTable(where, _watch)
    table.heard(jobs)
    serving = server.Server(address, table)
    end = server.serving(serving)
    try:
        print(f"the jobs {where} are shown at {serving.url} (Ctrl-C ends this)", flush=True)
        while True:
            table.wait(LIST_S)
            # Nobody is asked for nobody.
            if serving.browsers:
                table.fill(find_jobs)
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
    where = ""
    if (arguments.job or "").endswith(ALL_JOBS):
        where = f"of namespace {arguments.job.removesuffix(ALL_JOBS)} at {arguments.controller}"
    return show(arguments, lambda: find(arguments), where)


def show(arguments: argparse.Namespace, find_jobs: Callable[[], list[Job]], where: str = "") -> int:
    """Serves the page about the one job that there is, or about several, until Ctrl-C or the job's end.

    Args:
        arguments: `listen` and `insecure`, and those that `none_found` reads.
        find_jobs: finds them.
        where: whose jobs these are, if any number of them is to be listed; "": this user's, if there are several.

    Returns:
        The exit code.
    """
    jobs: list[Job] = []
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        address = _address(arguments)
        jobs = find_jobs()
        if where or len(jobs) > 1:
            _show_all(where or "of this user on this host", jobs, find_jobs, address)
        if not jobs:
            say(none_found(arguments))
            return 1
        _show(jobs[0], address)
    except UsageError as error:
        say(str(error))
        return 2
    except query.QueryError as error:
        say(jobs[0].explain(error) if jobs else str(error))
        return 2 if error.code == query.USAGE else 1
    except OSError as error:
        say(f"{arguments.listen}: {error}" if not isinstance(error, FileNotFoundError) else str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
