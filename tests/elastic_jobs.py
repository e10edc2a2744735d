"""An elastic job that tests run, and what they ask of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import processes
from processes import Job

# Steps until a file says that it is enough, as one decision of all. Each turn and each new size says who is there.
TRAIN = """
from farandole import elastic
from farandole.elastic.handlers import HandledState

hvd.init()
state = HandledState([], {"step": 0, "history": []})
@elastic.run
def train(state):
    print(f"turn {hvd.rank()} {hvd.size()} {os.getpid()} {state.step} {len(state.history)}", flush=True)
    while True:
        EXTRA
        assert hvd.allreduce(ones(5), name="gradient", op=hvd.Sum)[0] == hvd.size()
        state.step += 1
        state.history.append(state.step)
        enough = hvd.allreduce(tensor([float(os.path.exists("enough"))]), name="enough", op=hvd.Max)
        if hvd.rank() == 0 and state.step % 20 == 0:
            print(f"step {state.step} {hvd.size()}", flush=True)
        if enough[0]:
            return
        state.commit()

train(state)
assert state.history == list(range(1, state.step + 1))
print(f"done {hvd.rank()} {hvd.size()} {os.getpid()}", flush=True)
"""


class Turn:
    """A line that a worker has printed at the beginning of a turn."""

    def __init__(self, line: str) -> None:
        self.rank, self.size, self.pid, self.step, self.history = map(int, line.split())


class Elastic:
    """An elastic job that runs TRAIN."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self._folder = folder

    def turns(self, size: int) -> dict[int, Turn]:
        """The last turns of members of that size, by rank, once there are that many; otherwise nothing."""
        lines = [Turn(line) for line in self.job.lines("turn ")][-size:]
        complete = len(lines) == size and {turn.rank for turn in lines} == set(range(size))
        return {turn.rank: turn for turn in lines} if complete and all(turn.size == size for turn in lines) else {}

    def await_turns(self, size: int) -> dict[int, Turn]:
        """Waits until there are some."""
        return self.job.wait_for(lambda: self.turns(size), f"a turn of {size}")

    def await_steps(self, size: int) -> None:
        """Until a job of that size has taken some more."""
        seen = len(self.job.lines("step "))
        self.job.wait_for(
            lambda: any(line.endswith(f" {size}") for line in self.job.lines("step ")[seen:]), f"steps of {size}"
        )

    def enough(self, size: int) -> None:
        """Has the training end, and looks at its end."""
        (self._folder / "enough").touch()
        assert self.job.wait() == 0, self.job.report()
        assert len(self.job.lines("done ")) == size, self.job.report()


@contextmanager
def training(
    folder: Path, count: int, *options: str, setup: str = "", extra: str = "pass", **variables: str
) -> Iterator[Elastic]:
    """Runs TRAIN with `farandole run`; `setup` comes before the training, `extra` at the beginning of each step."""
    script = processes.script_file(
        folder, TRAIN.replace("@elastic.run", f"{setup}\n@elastic.run").replace("EXTRA", extra)
    )
    command = processes.launch_command(count, sys.executable, str(script), options=options)
    with processes.running(command, folder, variables) as job:
        yield Elastic(job, folder)


def children_named(job: Job, name: str) -> list[int]:
    """Processes of the job that run this program or module."""
    found = []
    mark = next(
        entry
        for entry in Path(f"/proc/{job.process.pid}/environ").read_text().split("\0")
        if entry.startswith("FARANDOLE_TEST_MARK=")
    )
    for pid in processes.marked(mark):
        if any(word.rpartition("/")[2] == name for word in processes.command_line(pid).split(" ")[:3]):
            found.append(pid)
    return found
