"""``farandole status``: what the jobs of this user do, once or live."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from typing import Any

from farandole.launch.settings.flags import UsageError
from farandole.launch.status import query, screen, view
from farandole.launch.status.jobs import Job, find, none_found

# A terminal is redrawn so often; a log gets a line a second at most.
LIVE_PER_SECOND, PLAIN_PER_SECOND = 4, 1


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole status: {sentence}", file=sys.stderr, flush=True)


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
            text = view.brief(job.summary())
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
        text = job.explain(answer) if isinstance(answer, query.QueryError) else view.line(answer)
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
    jobs: list[Job] = []
    try:
        jobs = find(arguments)
        if not jobs and arguments.name:
            say(none_found(arguments))
            return 1
        if not jobs:
            if not arguments.json:
                print(none_found(arguments))
            return 0
        if not arguments.watch:
            return _show_json(jobs) if arguments.json else _show(jobs)
        if len(jobs) > 1:
            say(f"{len(jobs)} jobs run there; name one of them: {', '.join(job.target.job for job in jobs)}")
            return 2
        return _watch(jobs[0], arguments.json)
    except query.QueryError as error:
        say(jobs[0].explain(error) if jobs else str(error))
        return _exit_code(error)
    except UsageError as error:
        say(str(error))
        return 2
    except FileNotFoundError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever reads has seen enough; nothing is to be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
