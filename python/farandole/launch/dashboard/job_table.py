"""The page of several jobs: a list of them, and a board of each one that somebody looks at."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from farandole.launch.dashboard.board import Cursor
from farandole.launch.dashboard.history import History
from farandole.launch.settings.flags import UsageError
from farandole.launch.status import query, view
from farandole.launch.status.jobs import Job

# Jobs that are watched at a time, each by a thread and a process.
WATCHED_MAX = 16


# For threads to end that are told to.
END_S = 2.0


@dataclass
class _Watched:
    """A job, how many browsers look at it, and who fills what they see.

    Attributes:
        ended: the version of the list that there was when nothing more was to be seen; None: it goes on.
    """

    job: str
    history: History
    thread: threading.Thread | None = None
    browsers: int = 0
    ended: int | None = None


class JobTable:
    """Filled by one thread, read by many.

    Args:
        where: whose jobs these are, as one would say it.
        watch: fills the history of a job until that is closed or the job over; runs in a thread of its own.
        clock: seconds since 1970.
    """

    page = "jobs.html"

    def __init__(
        self, where: str, watch: Callable[[Job, History], object], clock: Callable[[], float] = time.time
    ) -> None:
        self._where = where
        self._watch = watch
        self._clock = clock
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}
        self._rows: list[dict[str, Any]] = []
        self._outage: dict[str, Any] | None = None
        self._heard = clock()
        self._asked: float | None = None
        self._versions = 0
        # A browser has come, for which the list may be old.
        self._wanted = threading.Event()
        self._closed = False
        # By name, those first at which nobody has looked for longest; also when they are over. A thread may end some
        # time after what it fills.
        self._watched: dict[str, _Watched] = {}
        self._threads = 0

    def wait(self, timeout_s: float) -> None:
        """Until a browser comes, or so long."""
        self._wanted.wait(timeout_s)
        self._wanted.clear()

    def fill(self, find_jobs: Callable[[], Sequence[Job]]) -> None:
        """Makes the list again."""
        with self._changed:
            self._asked = self._clock()
        try:
            self.heard(find_jobs())
        except (query.QueryError, UsageError, OSError) as error:
            self.lost(str(error))

    def heard(self, jobs: Sequence[Job]) -> None:
        """These are there now. Asks each for its status if no list has told it."""
        rows = [_row(job) for job in jobs]
        with self._changed:
            self._jobs = {job.target.job: job for job in jobs}
            self._rows, self._outage, self._heard, self._asked = rows, None, self._clock(), None
            self._versions += 1
            self._changed.notify_all()

    def lost(self, reason: str) -> None:
        """There is no list any more."""
        with self._changed:
            self._outage, self._asked = {"since": self._heard, "text": reason}, None
            self._versions += 1
            self._changed.notify_all()

    def has(self, name: str) -> bool:
        """Whether there is such a job, or what was seen of it."""
        with self._changed:
            return name in self._jobs or name in self._watched

    @contextmanager
    def looking(self, name: str) -> Iterator[History | None]:
        """The board of a job, which is watched from now on if it was not; one that is over is shown as it was."""
        with self._changed:
            watched = self._watched.get(name)
            if watched is None or self._runs_again(watched):
                watched = self._begin(name) or watched
            if watched is not None:
                watched.browsers += 1
        try:
            yield watched.history if watched else None
        finally:
            with self._changed:
                if watched is not None:
                    watched.browsers -= 1
                    # Who was looked at last is the last to make room.
                    if self._watched.get(name) is watched:
                        self._watched[name] = self._watched.pop(name)

    def _runs_again(self, watched: _Watched) -> bool:
        """Whether a list that was begun after the end of what was watched has a job of this name."""
        return watched.ended is not None and self._versions > watched.ended + 1 and watched.job in self._jobs

    def _begin(self, name: str) -> _Watched | None:
        job = self._jobs.get(name)
        if job is None or self._closed or self._threads >= 2 * WATCHED_MAX:
            return None
        if name not in self._watched and len(self._watched) >= WATCHED_MAX:
            unseen = next((name for name, other in self._watched.items() if not other.browsers), None)
            if unseen is None:
                return None
            self._watched.pop(unseen).history.close()
        if name in self._watched:
            # Whoever has its page open comes again, and sees the new run.
            self._watched.pop(name).history.close()
        made = _Watched(name, History(name, job.command, job.target.controller, among_others=True))
        made.thread = threading.Thread(target=self._fill, args=(job, made), daemon=True)
        self._watched[name] = made
        self._threads += 1
        made.thread.start()
        return made

    def _fill(self, job: Job, made: _Watched) -> None:
        try:
            self._watch(job, made.history)
        finally:
            with self._changed:
                self._threads -= 1
                made.ended = self._versions

    def news(self, cursor: Cursor, timeout_s: float) -> str | None:
        """As Board has it: all rows if one of them may be new."""
        if cursor.contact == 0:
            cursor.contact = 1
            self._wanted.set()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or cursor.status != self._versions, timeout_s)
            if self._closed:
                return None
            told = {"where": self._where, "now": self._clock(), "heard": self._heard, "outage": self._outage}
            told["asked"] = self._asked
            rows = self._rows if cursor.status != self._versions else None
            cursor.status = self._versions
        return json.dumps({**told, "jobs": rows})

    def close(self) -> None:
        """Nothing will be told any more, of the jobs neither."""
        with self._changed:
            self._closed = True
            watched = list(self._watched.values())
            self._changed.notify_all()
        for one in watched:
            one.history.close()
        until = time.monotonic() + END_S
        for one in watched:
            if one.thread is not None:
                one.thread.join(max(0.0, until - time.monotonic()))


def _row(job: Job) -> dict[str, Any]:
    about = {"job": job.target.job, "command": " ".join(job.command)}
    try:
        summary = job.summary()
    except query.QueryError as error:
        return {
            **about,
            "state": "unknown",
            "size": 0,
            "bytesPerSecond": None,
            "trouble": job.explain(error),
            "bad": True,
        }
    runs, failed = (summary["state"] == f"JOB_STATE_{state}" for state in ("RUNNING", "FAILED"))
    silent = [f"{view.count_text(summary['unresponsive'], 'rank')} unresponsive"] if summary["unresponsive"] else []
    return {
        **about,
        "state": view.state_text(summary),
        "size": summary["size"],
        "bytesPerSecond": int(summary["bytesPerSecond"]) if runs else None,
        "trouble": "; ".join([*silent, *filter(None, [summary["trouble"]])]),
        "bad": failed or bool(silent),
    }
