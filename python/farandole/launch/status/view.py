"""Turns a job's status, as `query` gives it, into what people read. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Of more ranks than this, only those that say something: unresponsive, and the latest.
RANKS_ALL = 64
RANKS_SHOWN = 16
# The last column, which may be long; so much of it is kept when others have to go for it.
CONDITION = "condition"
CONDITION_WIDTH = 12
OK, LEFT = "ok", "has left"
# Of ranks on GPUs: what these did for a batch, in the mean of those that were measured.
ON_GPU = "GPU ms (wait+pack+NCCL+unpack)"
# A narrow terminal goes without these columns, the first one first.
DISPENSABLE = (ON_GPU, "tensors", "bytes", "(most)", "last", "pid", "late (mean)", "host")

Row = tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """All that is shown of one job, in this order.

    Attributes:
        alert: why the rest is old.
        title: the job and its command, in one line; may be cut.
        sentences: what it does, and how much.
        waits: who waits for whom.
        rows: of a table with a row for each rank; the first one has the names of the columns. The last cell may be cut.
        more: which ranks the table leaves out.
    """

    alert: str = ""
    title: str = ""
    sentences: Sequence[str] = ()
    waits: Sequence[str] = ()
    rows: Sequence[Row] = ()
    more: str = ""


def count_text(count: int, word: str) -> str:
    """ "1 rank", "2 ranks"; large numbers with commas."""
    return f"{count:,} {word}" + ("" if count == 1 else "es" if word.endswith("ch") else "s")


def bytes_text(count: float) -> str:
    """ "0 B", "12.3 MB", "4.5 GB"; decimal units."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def duration_text(ms: int) -> str:
    """ "0.5 s", "12 s", "3 min 5 s", "2 h 4 min"."""
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    seconds = ms // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def _word(value: str | int, prefix: str) -> str:
    """ "running" of JOB_STATE_RUNNING. A value that this version does not know is a number, and stays one."""
    return str(value).removeprefix(prefix).lower()


def _runs(status: dict[str, Any]) -> bool:
    return status["state"] == "JOB_STATE_RUNNING"


def state_text(status: dict[str, Any]) -> str:
    """ "replaying", "gathering", ...: what a running job does, or what it is if it does not run."""
    if _runs(status) and status["activity"] != "ACTIVITY_NONE":
        return _word(status["activity"], "ACTIVITY_")
    return _word(status["state"], "JOB_STATE_")


def line(status: dict[str, Any]) -> str:
    """One line for a log: the job, and `brief`."""
    return f"{status['job']}: {brief(summarize(status))}"


def summarize(status: dict[str, Any]) -> dict[str, Any]:
    """A JobSummary, of what `brief` says of it, from a JobStatus: both as protobuf maps them to JSON."""
    awaited = status["divergence"] or (status["waits"][0]["text"] if status["waits"] else "")
    return {
        **{name: status[name] for name in ("job", "state", "activity", "size", "bytesPerSecond")},
        "unresponsive": sum(not (member["responsive"] or member["left"]) for member in status["members"]),
        "trouble": "; ".join(filter(None, (awaited, status["reason"]))),
    }


def brief(summary: dict[str, Any]) -> str:
    """In one line the state, and what is wrong or waited for."""
    parts = [f"{state_text(summary)}, {count_text(summary['size'], 'rank')}"]
    bytes_per_second = int(summary["bytesPerSecond"])
    if _runs(summary) and bytes_per_second:
        parts.append(f"{bytes_text(bytes_per_second)}/s")
    if summary["unresponsive"]:
        parts.append(f"{summary['unresponsive']} unresponsive")
    if summary["trouble"]:
        parts.append(summary["trouble"])
    return "; ".join(parts)


_ON_GPU_PARTS = ("waitedUs", "packedUs", "ncclUs", "unpackedUs")


def _mean_ms(times: Sequence[dict[str, Any]]) -> list[float]:
    """Of what GPUs did for a batch, each part."""
    batches = sum(int(time["batches"]) for time in times)
    return [sum(int(time[part]) for time in times) / batches / 1000 for part in _ON_GPU_PARTS]


def _sentences(status: dict[str, Any]) -> list[str]:
    hosts = len({member["member"]["host"] for member in status["members"]})
    place = f"{count_text(status['size'], 'rank')} on {count_text(hosts, 'host')}"
    lines = [
        f"{state_text(status)}, {place}, generation {status['generation']['number']}, phase {status['phase']}"
        + (f": {status['reason']}" if status["reason"] else "")
    ]
    if status["communicatesBy"]:
        lines.append(f"between ranks: {status['communicatesBy']}")
    replay = status["replay"]
    if int(replay["index"]):
        lines.append(
            f"replay of {count_text(replay['batches'], 'batch')} with {count_text(replay['tensors'], 'tensor')}: "
            f"{count_text(int(replay['repetitions']), 'repetition')}, for {duration_text(int(replay['ageMs']))}"
        )
    traffic = {name: int(count) for name, count in status["traffic"].items()}
    if traffic["batches"]:
        lines.append(
            f"all ranks: {bytes_text(int(status['bytesPerSecond']))}/s, {int(status['batchesPerSecond']):,} batches/s, "
            f"{int(status['tensorsPerSecond']):,} tensors/s; {bytes_text(traffic['bytes'])} in "
            f"{count_text(traffic['tensors'], 'tensor')} and {count_text(traffic['batches'], 'batch')} so far, "
            f"{count_text(traffic['messages'], 'control message')}"
        )
    announced = traffic["cacheHits"] + traffic["cacheMisses"]
    if announced:
        lines.append(f"signature cache: {traffic['cacheHits'] / announced:.1%} of {announced:,} announcements")
    times = [member["deviceTime"] for member in status["members"] if "deviceTime" in member]
    if times:
        waited, packed, nccl, unpacked = _mean_ms(times)
        measured = sum(int(time["batches"]) for time in times)
        lines.append(
            f"GPUs, a batch in the mean of {measured:,} measured: waited {waited:.2f} ms for its tensors, "
            f"packed {packed:.2f} ms, NCCL {nccl:.2f} ms, unpacked {unpacked:.2f} ms"
        )
    return lines


def _waits(status: dict[str, Any]) -> list[str]:
    lines = [f"! {status['divergence']}"] if status["divergence"] else []
    lines += [f"! {wait['text']}" for wait in status["waits"]]
    return lines or ["nobody waits for anybody"]


def _shown(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(members) <= RANKS_ALL:
        return members
    silent = [m for m in members if not m["responsive"]][:RANKS_SHOWN]
    latest = sorted(members, key=lambda m: -int(m["lateness"]["meanUs"]))[:RANKS_SHOWN]
    chosen = {id(m) for m in silent + latest}
    return [m for m in members if id(m) in chosen]


def _condition(member: dict[str, Any]) -> str:
    if member["left"]:
        return LEFT
    return OK if member["responsive"] else f"unresponsive: {member['cause']}"


def _on_gpu(member: dict[str, Any]) -> str:
    # Absent, where nothing was measured.
    time = member.get("deviceTime")
    return "+".join(f"{ms:.2f}" for ms in _mean_ms([time])) if time else "-"


def _rows(shown: list[dict[str, Any]]) -> list[Row]:
    on_gpus = any("deviceTime" in m for m in shown)
    names = ("rank", "host", "pid", "late (mean)", "(most)", "last", "tensors", "bytes")
    rows: list[Row] = [(*names, *([ON_GPU] if on_gpus else ()), CONDITION)]
    for m in shown:
        late, traffic, member = m["lateness"], m["traffic"], m["member"]
        rows.append(
            (
                str(member["rank"]) if member["rank"] >= 0 else "?",
                member["host"],
                str(member["pid"]),
                f"{int(late['meanUs']) / 1000:.1f} ms",
                f"{int(late['maxUs']) / 1000:.1f} ms",
                f"{int(late['lastCount']):,}",
                f"{int(traffic['tensors']):,}",
                bytes_text(int(traffic["bytes"])),
                *([_on_gpu(m)] if on_gpus else ()),
                _condition(m),
            )
        )
    return rows


def _in_one_line(command: Sequence[str]) -> str:
    return " ".join(" ".join(command).split())


def page(status: dict[str, Any], command: Sequence[str] = ()) -> Page:
    """Everything that a person wants to see of one job."""
    members = status["members"]
    shown = _shown(members)
    left_out = len(members) - len(shown)
    return Page(
        title=f"job {status['job']}" + (f": {_in_one_line(command)}" if command else ""),
        sentences=_sentences(status),
        waits=_waits(status),
        rows=_rows(shown) if members else (),
        more=f"{left_out:,} more ranks, less late than these" if left_out else "",
    )


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(map(len, cells)) for cells in zip(*rows)]


def fitting(rows: Sequence[Row], columns: int) -> Sequence[Row]:
    """The rows without the columns for which a terminal of this width has no room."""
    for name in DISPENSABLE:
        *widths, last = _widths(rows)
        if sum(widths) + 2 * len(widths) + min(last, CONDITION_WIDTH) <= columns:
            break
        if name not in rows[0]:
            continue
        at = rows[0].index(name)
        rows = [row[:at] + row[at + 1 :] for row in rows]
    return rows


def lines(page: Page, columns: int = 0) -> list[str]:
    """The page as plain text, for a terminal of this width; 0: of any."""

    def wrapped(sentence: str) -> list[str]:
        return textwrap.wrap(sentence, columns) if columns else [sentence]

    texts = [*wrapped(page.alert), "", page.title] if page.alert else [page.title]
    rows = page.rows
    for sentence in (*page.sentences, *page.waits):
        texts += wrapped(sentence)
    if rows and columns:
        rows = fitting(rows, columns)
    if rows:
        *widths, _ = _widths(rows)
        texts.append("")
        texts += ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths)), row[-1]]) for row in rows]
    texts += wrapped(page.more) if page.more else []
    return [text[:columns] for text in texts] if columns else texts


def job_list(rows: Sequence[tuple[str, str, Sequence[str]]]) -> list[str]:
    """Several jobs, a line each: name, what is known of it, command."""
    width = max(len(name) for name, _, _ in rows)
    lines = [f"{name.ljust(width)}  {text}" for name, text, _ in rows]
    return [text + (f"  ({_in_one_line(command)})" if command else "") for text, (_, _, command) in zip(lines, rows)]
