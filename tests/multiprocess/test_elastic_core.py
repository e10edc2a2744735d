"""Elastic membership below the Python API: processes of one host that die, come and are sent away."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import processes
import pytest
from elastic_parts import ElasticParts, elastic_job, memberships

SCRIPT = Path(__file__).with_name("elastic_core_worker.py")
# Evidence comes within milliseconds; without it the survivors would wait for the start timeout, 30 s.
AGAIN_S = 10.0


def wait_for_members(job: ElasticParts, workers: list[processes.Job], count: int) -> float:
    """Until each of these has its membership number `count`, and they make up one; when the last one had it."""

    def there() -> bool:
        return all(len(memberships(worker)) >= count for worker in workers)

    job.wait_for(there, f"membership {count}")
    last = [memberships(worker)[count - 1] for worker in workers]
    assert sorted(int(words[1]) for words in last) == list(range(len(workers))), last
    assert {int(words[2]) for words in last} == {len(workers)}, last
    return max(float(words[3]) for words in last)


def finish(job: ElasticParts, stop: Path, workers: list[processes.Job]) -> None:
    stop.touch()
    for worker in workers:
        assert worker.wait() == 0, worker.report()
        assert worker.lines("done") == [""], worker.report()


@pytest.fixture
def stop(tmp_path: Path) -> Path:
    return tmp_path / "stop"


def test_survivors_go_on_at_once_and_a_newcomer_is_taken_in(tmp_path: Path, stop: Path) -> None:
    with elastic_job(tmp_path, SCRIPT, 4, (2, 4)) as job:
        workers = [job.start_worker(str(stop)) for _ in range(4)]
        wait_for_members(job, workers, 1)
        ranks = {int(memberships(worker)[0][1]): worker for worker in workers}
        before = time.monotonic()
        os.kill(ranks[0].process.pid, signal.SIGKILL)
        survivors = [ranks[1], ranks[2], ranks[3]]
        took = wait_for_members(job, survivors, 2) - before
        print(f"{took * 1000:.0f} ms from SIGKILL to the next membership")
        assert took < AGAIN_S
        assert [int(memberships(worker)[1][1]) for worker in survivors] == [0, 1, 2], "they keep their order"
        [told] = survivors[0].lines("lost ")
        assert f"rank 0 (pid {ranks[0].process.pid} on host" in told
        assert "was killed by signal 9 (SIGKILL)" in told

        newcomer = job.start_worker(str(stop))
        job.wait_for(lambda: memberships(newcomer), "the newcomer to become a member")
        assert memberships(newcomer)[0][1:3] == ["3", "4"]
        assert survivors[0].lines("changes ") == ["1 0"]
        finish(job, stop, [*survivors, newcomer])


def test_a_retired_worker_goes_and_is_not_let_in_again(tmp_path: Path, stop: Path) -> None:
    with elastic_job(tmp_path, SCRIPT, 3, (1, 0)) as job:
        workers = [job.start_worker(str(stop)) for _ in range(3)]
        wait_for_members(job, workers, 1)
        retired, *others = workers
        job.retire(retired)
        assert retired.wait() == 0, retired.report()
        assert retired.lines("failed WorkerRetiredError: "), retired.report()
        wait_for_members(job, others, 2)
        assert others[0].lines("changes ") == ["0 1"]
        finish(job, stop, others)


def test_agent_and_controller_are_replaced_while_members_come_and_go(tmp_path: Path, stop: Path) -> None:
    with elastic_job(tmp_path, SCRIPT, 2, (1, 0)) as job:
        workers = [job.start_worker(str(stop)) for _ in range(2)]
        wait_for_members(job, workers, 1)
        job.read_store()
        job.replace_agent()
        workers.append(job.start_worker(str(stop)))
        job.wait_for(lambda: memberships(workers[2]), "the newcomer to become a member")
        job.replace_controller()
        victim = workers.pop(1)
        os.kill(victim.process.pid, signal.SIGKILL)
        job.wait_for(
            lambda: all(memberships(w)[-1][2] == "2" for w in workers) and len(memberships(workers[1])) == 2,
            "the others to go on",
        )
        finish(job, stop, workers)


def test_too_few_wait_for_another_one_and_say_so(tmp_path: Path, stop: Path) -> None:
    with elastic_job(tmp_path, SCRIPT, 2, (2, 2)) as job:
        workers = [job.start_worker(str(stop), FARANDOLE_ELASTIC_TIMEOUT="8") for _ in range(2)]
        wait_for_members(job, workers, 1)
        os.kill(workers[0].process.pid, signal.SIGKILL)
        another = job.start_worker(str(stop), FARANDOLE_ELASTIC_TIMEOUT="8")
        job.wait_for(lambda: memberships(another), "another one to complete the job")
        os.kill(another.process.pid, signal.SIGKILL)
        [told] = job.wait_for(lambda: workers[1].lines("failed "), "the last one to give up")
        assert told.startswith("InitializationError: only 1 of the 2 processes that the job needs have called init()")
