"""What has happened between two statuses of a job, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from farandole.launch.status.view import count_text, duration_text, state_text

# A wait of so long is told of as an event.
WAIT_LONG_MS = 10_000
# One without missing ranks is a wait for nobody: something is slow, which is a note, and its end is no news.
COLLECTIVE = "WAIT_KIND_COLLECTIVE"
# Of ranks with the same news so many runs are named, the others counted.
RUNS_NAMED = 4

Status = dict[str, Any]
# What it means for the job, "bad", "good" or "note", and the sentence.
Event = tuple[str, str]
# Kind, process set and missing ranks of a wait, and the first of what is waited for.
WaitKey = tuple[str, int, tuple[int, ...], str]


def _run_text(run: list[int]) -> list[str]:
    return [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(rank) for rank in run]


def ranks_text(ranks: Iterable[int]) -> str:
    """ "rank 3", "ranks 0 to 2 and 5", "ranks 0, 2, 4, 6 and 12 more"."""
    numbers = sorted(ranks)
    runs: list[list[int]] = []
    for rank in numbers:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    named = [part for run in runs[:RUNS_NAMED] for part in _run_text(run)]
    left_out = sum(map(len, runs[RUNS_NAMED:]))
    named += [f"{left_out:,} more"] if left_out else []
    text = ", ".join(named[:-1]) + " and " + named[-1] if len(named) > 1 else named[0]
    return f"rank{'' if len(numbers) == 1 else 's'} {text}"


def _place(status: Status) -> str:
    hosts = len({member["member"]["host"] for member in status["members"]})
    return f"{count_text(status['size'], 'rank')} on {count_text(hosts, 'host')}"


def _generation(status: Status) -> int:
    return int(status["generation"]["number"])


def _of_ranks(before: Status, after: Status) -> list[Event]:
    known = {m["member"]["rank"]: m for m in before["members"]}
    pairs = [(known.get(m["member"]["rank"], m), m) for m in after["members"]]

    def changed(name: str, value: bool) -> list[dict[str, Any]]:
        return [new for old, new in pairs if new[name] == value and old[name] != value]

    silent = [m for m in changed("responsive", False) if not m["left"]]
    causes: dict[tuple[str, str], list[int]] = {}
    for m in silent:
        causes.setdefault((m["member"]["host"], m["cause"]), []).append(m["member"]["rank"])
    found = [
        ("bad", f"{ranks_text(ranks)} on host {host} {'does' if len(ranks) == 1 else 'do'} not answer: {cause}")
        for (host, cause), ranks in causes.items()
    ]
    back = [m["member"]["rank"] for m in changed("responsive", True)]
    if back:
        found.append(("good", f"{ranks_text(back)} {'answers' if len(back) == 1 else 'answer'} again"))
    gone = [m["member"]["rank"] for m in changed("left", True)]
    if gone:
        found.append(("note", f"{ranks_text(gone)} {'has' if len(gone) == 1 else 'have'} left"))
    return found


def _long_waits(status: Status) -> dict[WaitKey, dict[str, Any]]:
    # While a controller learns what there is, or ranks end, waits say nothing about the script.
    if status["state"] != "JOB_STATE_RUNNING":
        return {}
    return {
        (wait["kind"], wait["processSet"], tuple(wait["missingRanks"]), (wait["names"] or [""])[0]): wait
        for wait in status["waits"]
        if int(wait["ageMs"]) >= WAIT_LONG_MS
    }


def _is_for_nobody(key: WaitKey) -> bool:
    return key[0] == COLLECTIVE and not key[2]


def _of_waits(before: Status, after: Status) -> list[Event]:
    old, new = _long_waits(before), _long_waits(after)
    found = [("note" if _is_for_nobody(key) else "bad", new[key]["text"]) for key in new.keys() - old.keys()]
    for key in old.keys() - new.keys():
        if _is_for_nobody(key):
            continue
        ranks = ranks_text(key[2]) if key[2] else "other ranks"
        took = duration_text(int(old[key]["ageMs"]))
        found.append(("good", f"{ranks} {'is' if len(key[2]) == 1 else 'are'} not waited for any more, after {took}"))
    if after["divergence"] and not before["divergence"]:
        found.append(("bad", after["divergence"]))
    return found


def first(status: Status) -> list[Event]:
    """What stands in the first status that is seen."""
    nothing = {**status, "members": [{**m, "responsive": True, "left": False} for m in status["members"]]}
    nothing.update(waits=[], divergence="")
    start = f"{state_text(status)}, {_place(status)}, generation {_generation(status)}"
    start += f": {status['reason']}" if status["reason"] else ""
    return [("note", start), *_of_ranks(nothing, status), *_of_waits(nothing, status)]


def between(before: Status, after: Status) -> list[Event]:
    """What is new in `after`, which was seen next after `before`."""
    found: list[Event] = []
    if after["controllerIncarnation"] != before["controllerIncarnation"]:
        found.append(("note", "the controller was started again"))
    # 0: another run of the job has begun to gather.
    if _generation(after) not in (0, _generation(before)):
        text = f"generation {_generation(after)}: {_place(after)}"
        # While a job gathers, its size is that of the next one.
        known = before["size"] and before["state"] != "JOB_STATE_GATHERING"
        found.append(("note", text + (f", before {count_text(before['size'], 'rank')}" if known else "")))
    if after["state"] != before["state"]:
        kinds = {"JOB_STATE_RUNNING": "good", "JOB_STATE_FAILED": "bad"}
        word = str(after["state"]).replace("JOB_STATE_", "").lower()
        text = f"the job is {word}" if word != "failed" else "the job has failed"
        text += f": {after['reason']}" if after["reason"] else ""
        found.append((kinds.get(after["state"], "note"), text))
    if _generation(after) == _generation(before):
        found += _of_ranks(before, after)
    return found + _of_waits(before, after)
