"""What has been seen of one job: its newest status, a curve's points and events, for any number of browsers."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from farandole.launch.dashboard import events
from farandole.launch.dashboard.board import Board, Cursor

# Half an hour of the curves, and of events about as many as somebody reads; older ones are forgotten.
SAMPLES_MAX = 1800
SAMPLE_S = 0.95
EVENTS_MAX = 200
# Steps per second of a replay are a mean over so many samples.
STEPS_OVER = 10


class History:
    """Filled by one thread, read by many.

    Readers that are slow miss statuses, and the samples and events that were forgotten meanwhile; they never hold up
    the writer, and nothing is kept for them but a `Cursor` of their own.

    Args:
        job: name of the job.
        command: what it runs; may be empty.
        controller: HOST:PORT.
        clock: seconds since 1970.
        among_others: its page is below one that lists several jobs.
    """

    page = "page.html"

    def __init__(
        self,
        job: str,
        command: Sequence[str],
        controller: str,
        clock: Callable[[], float] = time.time,
        among_others: bool = False,
    ) -> None:
        self._about = {"job": job, "command": " ".join(command), "controller": controller, "amongOthers": among_others}
        self._clock = clock
        self._changed = threading.Condition()
        self._status: events.Status | None = None
        self._status_text = "null"
        self._statuses = self._contacts = 0
        self._samples: deque[list[float | None]] = deque(maxlen=SAMPLES_MAX)
        self._samples_all = 0
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)
        self._events_all = 0
        self._repetitions: deque[tuple[str, int, int]] = deque(maxlen=STEPS_OVER)
        self._heard = clock()
        self._outage: dict[str, Any] | None = None
        self._end = ""
        self._closed = False

    def heard(self, status: events.Status) -> None:
        """The controller has told this."""
        with self._changed:
            now = self._clock()
            if self._outage is not None:
                self._tell("good", f"there is a status again, after {now - self._outage['since']:.0f} s")
                self._outage = None
                self._contacts += 1
            news = events.first(status) if self._status is None else events.between(self._status, status)
            for kind, text in news:
                self._tell(kind, text)
            self._heard, self._status = now, status
            self._status_text = json.dumps(status)
            self._statuses += 1
            if not self._samples or now - (self._samples[-1][0] or 0) >= SAMPLE_S:
                self._samples.append(self._sample(status, now))
                self._samples_all += 1
            self._changed.notify_all()

    def lost(self, reason: str, answered: bool = False) -> None:
        """The controller does not answer, or has `answered` that it knows nothing of the job."""
        with self._changed:
            self._outage = {"since": self._heard, "text": reason, "answered": answered}
            self._tell("note" if answered else "bad", reason)
            self._contacts += 1
            self._changed.notify_all()

    def over(self, kind: str, sentence: str) -> None:
        """Nothing more will be heard."""
        with self._changed:
            self._end, self._outage = sentence, None
            self._tell(kind, sentence)
            self._contacts += 1
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether nobody will be told any more."""
        return self._closed

    def has(self, name: str) -> bool:
        """There is nothing below one job."""
        return False

    def looking(self, name: str) -> AbstractContextManager[Board | None]:
        """There is nothing below one job."""
        return nullcontext(None)

    def close(self) -> None:
        """Nothing will be told any more; wakes all readers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def news(self, cursor: Cursor, timeout_s: float) -> str | None:
        """As Board has it."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._new_for(cursor), timeout_s)
            if self._closed:
                return None
            head = {
                **self._about,
                "now": self._clock(),
                "heard": self._heard,
                "outage": self._outage,
                "end": self._end,
                # Whether what follows replaces what the page has.
                "fresh": cursor.contact == 0,
                "samples": self._last(self._samples, self._samples_all - cursor.samples),
                "events": self._last(self._events, self._events_all - cursor.events),
            }
            status = self._status_text if self._statuses != cursor.status else "null"
            cursor.status, cursor.samples, cursor.events = self._statuses, self._samples_all, self._events_all
            cursor.contact = self._contacts + 1
        return f'{json.dumps(head)[:-1]}, "status": {status}}}'

    @staticmethod
    def _last(kept: deque[Any], count: int) -> list[Any]:
        return list(kept)[max(0, len(kept) - count) :] if count else []

    def _new_for(self, cursor: Cursor) -> bool:
        seen = (cursor.status, cursor.samples, cursor.events, cursor.contact)
        return seen != (self._statuses, self._samples_all, self._events_all, self._contacts + 1)

    def _tell(self, kind: str, text: str) -> None:
        self._events.append({"at": self._clock(), "kind": kind, "text": text})
        self._events_all += 1

    def _sample(self, status: events.Status, now: float) -> list[float | None]:
        """[when, bytes/s, batches/s, steps/s or None, ms of the latest rank, which, ms of the oldest wait]."""
        late, rank = max(
            ((int(m["lateness"]["meanUs"]), m["member"]["rank"]) for m in status["members"] if not m["left"]),
            default=(0, -1),
        )
        waited = max((int(wait["ageMs"]) for wait in status["waits"]), default=0)
        running = status["state"] == "JOB_STATE_RUNNING"
        rates = [int(status[name]) if running else 0 for name in ("bytesPerSecond", "batchesPerSecond")]
        return [round(now, 3), *rates, self._steps_per_second(status), late / 1000, rank, waited]

    def _steps_per_second(self, status: events.Status) -> float | None:
        """Of the replay that goes on, by the controller's clock; None if there is none, or it is too young to tell."""
        replay = status["replay"]
        if replay["index"] == "0" or (self._repetitions and self._repetitions[-1][0] != replay["index"]):
            self._repetitions.clear()
        if replay["index"] == "0":
            return None
        self._repetitions.append((replay["index"], int(replay["repetitions"]), int(replay["ageMs"])))
        (_, steps, since), (_, steps_now, until) = self._repetitions[0], self._repetitions[-1]
        return round((steps_now - steps) * 1000 / (until - since), 2) if until - since >= 1000 else None
