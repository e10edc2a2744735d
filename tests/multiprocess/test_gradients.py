from __future__ import annotations

import re
from pathlib import Path

import processes
import pytest


def test_gradients_in_shared_memory(tmp_path: Path) -> None:
    job = processes.run_cases(tmp_path, 2, "gradients_worker.py")
    # That of the case in which too much is asked for.
    assert job.stderr.count("stay outside of shared memory") == 2, job.report()


def test_places_as_on_a_device(tmp_path: Path) -> None:
    job = processes.launch_file(tmp_path, 2, "device_places_worker.py")
    assert job.wait() == 0 and len(job.lines("checked places")) == 2, job.report()


@pytest.mark.parametrize(
    ("worker", "places"),
    [
        ("gradients_worker.py", 100),
        ("optimizer_worker.py", 100),
        ("plain_worker.py", 100),
        ("adasum_worker.py", 0),
        ("odd_scripts_worker.py", 5),
    ],
)
def test_training_with_places_as_on_a_device(tmp_path: Path, worker: str, places: int) -> None:
    """And with a device that is behind. `places`: how many are taken at least; an Adasum has none."""
    job = processes.launch_file(tmp_path, 2, "device_places_worker.py", worker)
    assert job.wait() == 0, job.report()
    taken = [int(line) for line in job.lines("places taken ")]
    assert len(taken) == 2 and min(taken) >= places, job.report()


def test_they_stay_outside_if_told_so(tmp_path: Path) -> None:
    body = """
        hvd.init()
        model = torch.nn.Linear(300, 300)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        model(torch.full((1, 300), float(hvd.rank()))).sum().backward()
        optimizer.step()
        assert not any(slot.place for slot in optimizer._reducer.slots)
        assert torch.equal(model.weight.grad, torch.full((300, 300), 0.5))
        os.write(1, b"done %d\\n" % hvd.rank())
        """
    job = processes.launch(tmp_path, 2, body, FARANDOLE_SHARED_TENSORS="0")
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("done ")) == ["0", "1"]


def test_the_bound_on_shared_memory_is_said_on_request(tmp_path: Path) -> None:
    for options, lines in (((), 0), (("--verbose",), 1)):
        folder = tmp_path / f"{lines}"
        folder.mkdir()
        with processes.running(processes.launch_command(2, "true", options=options), folder) as job:
            assert job.wait() == 0, job.report()
        said = re.findall(
            r"^farandole-agent: shared memory: up to [\d.]+ \w+ for segments \(half of [\d.]+ \w+, "
            r"the (?:control group's limit|machine's memory)\)$",
            job.stderr,
            re.MULTILINE,
        )
        assert len(said) == lines, job.report()
