"""``farandole status``: what the jobs of this user do, once or live."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from farandole.launch.status import job_files, query, screen, view

# A terminal is redrawn so often; a log gets a line a second at most.
LIVE_PER_SECOND, PLAIN_PER_SECOND = 4, 1
# A controller that is started again answers within this time; its agents are back at once.
AGAIN_S = 0.25


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole status: {sentence}", file=sys.stderr, flush=True)


class Job:
    """One job and the way to it; `file` is None for that of a deployed controller."""

    def __init__(self, target: query.Target, file: job_files.JobFile | None) -> None:
        self.target = target
        self.file = file
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

    def watch(self, per_second: int) -> Iterator[dict[str, Any] | query.QueryError]:
        """Statuses, and once per outage why there is none; ends when the job is over."""
        seen, outage = False, False
        while not self.over():
            try:
                for status in self.target.watch(per_second):
                    seen, outage = True, False
                    yield status
            except query.QueryError as error:
                again = error.code == query.NO_ANSWER or (error.code == query.NO_JOB and self.file is not None)
                if not again and not (error.code == query.NO_JOB and seen):
                    raise
                if not again:
                    return
                if not outage and not self.over():
                    outage = True
                    yield error
                time.sleep(AGAIN_S)


def _find(arguments: argparse.Namespace) -> list[Job]:
    deployed = [arguments.controller, arguments.job, arguments.token_file]
    if any(deployed):
        if not all(deployed) or arguments.name:
            say("--controller, --job and --token-file go together, and without a JOB of this host")
            sys.exit(2)
        target = query.Target(
            arguments.job,
            arguments.controller,
            token_file=arguments.token_file,
            tls_ca=arguments.tls_ca,
            insecure=arguments.insecure,
        )
        return [Job(target, None)]
    files = [f for f in job_files.read_all() if not arguments.name or f.job.startswith(arguments.name)]
    return [Job(query.Target(f.job, f.controller, token=f.token, certificate=f.certificate), f) for f in files]


def _print_json(status: dict[str, Any]) -> None:
    print(json.dumps(status), flush=True)


def _show_json(jobs: list[Job]) -> int:
    code = 0
    for job in jobs:
        try:
            _print_json(job.get())
        except query.QueryError as error:
            say(f"{job.target.job}: {job.explain(error)}")
            code = _exit_code(error)
    return code


def _show(jobs: list[Job]) -> int:
    if len(jobs) == 1:
        print("\n".join(view.lines(view.page(jobs[0].get(), jobs[0].command))))
        return 0
    rows, code = [], 0
    for job in jobs:
        try:
            text = view.brief(job.get())
        except query.QueryError as error:
            text, code = job.explain(error), _exit_code(error)
        rows.append((job.target.job, text, job.command))
    print("\n".join(view.job_list(rows)))
    return code


def _watch_json(job: Job) -> None:
    for answer in job.watch(PLAIN_PER_SECOND):
        if isinstance(answer, query.QueryError):
            say(job.explain(answer))
        else:
            _print_json(answer)


def _watch_lines(job: Job) -> None:
    printed = ""
    for answer in job.watch(PLAIN_PER_SECOND):
        text = job.explain(answer) if isinstance(answer, query.QueryError) else view.summary(answer)
        if text != printed:
            printed = text
            print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _watch_screen(job: Job) -> None:
    page = view.Page()
    with screen.make() as shown:
        for answer in job.watch(LIVE_PER_SECOND):
            if isinstance(answer, query.QueryError):
                page = replace(page, alert=f"! {job.explain(answer)}")
            else:
                page = view.page(answer, job.command)
            shown.show(page)


def _watch(job: Job, as_json: bool) -> int:
    if as_json:
        _watch_json(job)
        return 0
    (_watch_screen if screen.is_possible() else _watch_lines)(job)
    print(f"job {job.target.job} is over", flush=True)
    return 0


def _exit_code(error: query.QueryError) -> int:
    return 2 if error.code == query.USAGE else 1


def run(arguments: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code."""
    try:
        jobs = _find(arguments)
        if not jobs and arguments.name:
            say(f"no job of this user on this host begins with {arguments.name!r}")
            return 1
        if not jobs:
            if not arguments.json:
                print("no job of this user runs on this host")
            return 0
        if not arguments.watch:
            return _show_json(jobs) if arguments.json else _show(jobs)
        if len(jobs) > 1:
            say(f"{len(jobs)} jobs run here; name one of them: {', '.join(job.target.job for job in jobs)}")
            return 2
        return _watch(jobs[0], arguments.json)
    except query.QueryError as error:
        say(jobs[0].explain(error))
        return _exit_code(error)
    except FileNotFoundError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever reads has seen enough; nothing is to be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
