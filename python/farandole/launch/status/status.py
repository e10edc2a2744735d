"""``farandole status``: what the jobs of this user do, once or live."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from farandole.launch.status import job_files, query, view

# A terminal is redrawn so often; a log gets a line a second at most.
LIVE_PER_SECOND, PLAIN_PER_SECOND = 4, 1
# A controller that is started again answers within this time; its agents are back at once.
AGAIN_S = 0.25


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole status: {sentence}", file=sys.stderr, flush=True)


class _Job:
    """One job and the way to it; `file` is None for that of a deployed controller."""

    def __init__(self, target: query.Target, file: job_files.JobFile | None) -> None:
        self.target = target
        self.file = file
        self.command: Sequence[str] = file.command if file else ()

    def over(self) -> bool:
        """Whether its launcher has ended."""
        return self.file is not None and not self.file.alive()

    def explain(self, error: query.QueryError) -> str:
        """What it means that there is no answer."""
        if self.file is None or error.code not in (query.NO_ANSWER, query.NO_JOB):
            return str(error)
        if error.code == query.NO_JOB:
            return "its controller runs, its agent has not connected yet"
        return f"{error}; the launcher (pid {self.file.pid}) starts it again, the ranks go on without it meanwhile"

    def as_json(self, answer: dict[str, Any] | query.QueryError) -> dict[str, Any]:
        """The answer, or why there is none."""
        return {"job": self.target.job, "error": self.explain(answer)} if isinstance(answer, Exception) else answer

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


def _find(arguments: argparse.Namespace) -> list[_Job]:
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
        return [_Job(target, None)]
    files = [f for f in job_files.read_all() if not arguments.name or f.job.startswith(arguments.name)]
    return [_Job(query.Target(f.job, f.controller, token=f.token, certificate=f.certificate), f) for f in files]


def _show(jobs: list[_Job], as_json: bool) -> int:
    if len(jobs) == 1 and not as_json:
        print("\n".join(view.full(jobs[0].get(), jobs[0].command)))
        return 0
    answers: list[dict[str, Any] | query.QueryError] = []
    for job in jobs:
        try:
            answers.append(job.get())
        except query.QueryError as error:
            answers.append(error)
    found = list(zip(jobs, answers))
    if as_json:
        print(json.dumps([job.as_json(answer) for job, answer in found], ensure_ascii=False))
    else:
        texts = [job.explain(a) if isinstance(a, Exception) else view.summary(a) for job, a in found]
        rows = [(job.target.job, text, job.command) for job, text in zip(jobs, texts)]
        print("\n".join(view.job_list(rows)))
    return int(any(isinstance(answer, query.QueryError) for answer in answers))


def _draw(lines: list[str]) -> None:
    """Redraws the terminal; what does not fit is cut."""
    columns, rows = shutil.get_terminal_size()
    visible = [line[:columns] for line in lines[: rows - 1]]
    print("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in visible) + "\x1b[J", end="", flush=True)


def _watch(job: _Job, as_json: bool) -> int:
    live = sys.stdout.isatty() and not as_json
    last: dict[str, Any] = {}
    printed = ""
    for answer in job.watch(LIVE_PER_SECOND if live else PLAIN_PER_SECOND):
        problem = job.explain(answer) if isinstance(answer, query.QueryError) else ""
        last = last if isinstance(answer, query.QueryError) else answer
        if as_json:
            print(json.dumps(job.as_json(answer), ensure_ascii=False), flush=True)
        elif live:
            shown = view.full(last, job.command) if last else []
            _draw(([f"! {problem}", ""] if problem else []) + shown)
        else:
            text = problem or view.summary(last)
            if text != printed:
                printed = text
                print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
    if not as_json:
        print(f"job {job.target.job} is over", flush=True)
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Runs the subcommand; returns the exit code."""
    try:
        jobs = _find(arguments)
        if not jobs and arguments.name:
            say(f"no job of this user on this host begins with {arguments.name!r}")
            return 1
        if not jobs:
            print("[]" if arguments.json else "no job of this user runs on this host")
            return 0
        if not arguments.watch:
            return _show(jobs, arguments.json)
        if len(jobs) > 1:
            say(f"{len(jobs)} jobs run here; name one of them: {', '.join(job.target.job for job in jobs)}")
            return 2
        return _watch(jobs[0], arguments.json)
    except query.QueryError as error:
        say(jobs[0].explain(error))
        return 2 if error.code == query.USAGE else 1
    except FileNotFoundError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever reads has seen enough; nothing is to be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
