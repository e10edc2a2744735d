"""What concerns streams and graphs of a GPU: the host waits for nothing, and captures."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Callable

import pytest
from gpu import parts

has_graphs = pytest.mark.skipif(not parts.ON_GPU, reason="on a CPU no stream can be captured into a CUDA graph")

# Steps while the GPU sleeps for a second. `step` is to be one that has been replayed for long.
ASLEEP = """
        def sleep(cycles):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            torch.cuda._sleep(cycles)
            torch.cuda.synchronize()
            return time.perf_counter() - begin

        def measure(step):
            sleep(200_000_000)  # clocks rise with work
            cycles = int(200_000_000 / sleep(200_000_000))
            for _ in range(30):
                step()
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            marks[0].record()
            torch.cuda.synchronize()
            marks[0].record()
            torch.cuda._sleep(cycles)
            marks[1].record()
            torch.cuda.set_sync_debug_mode("error")
            begin = time.perf_counter()
            results = step()
            host_ms = 1000 * (time.perf_counter() - begin)
            asleep = not marks[1].query()
            torch.cuda.set_sync_debug_mode("default")
            torch.cuda.synchronize()
            print("took", host_ms, marks[0].elapsed_time(marks[1]), int(asleep), flush=True)
            return results
        """
ALLREDUCES = """
        tensors = [torch.ones(1000, device=device) for _ in range(20)]

        def step():
            handles = [hvd.allreduce_async(each, op=hvd.Sum, name=str(i)) for i, each in enumerate(tensors)]
            return [hvd.synchronize(handle) * 2 for handle in handles]

        for result in measure(step):
            assert torch.equal(result.cpu(), torch.full((1000,), 2.0 * hvd.size()))
        """
OPTIMIZER = """
        model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(12))).to(device)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
        inputs = torch.full((8, 64), 1.0 + hvd.rank(), device=device)

        def step():
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()

        measure(step)
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        everyone = hvd.allgather(weights[None])
        assert all(torch.equal(each, everyone[0]) for each in everyone) and weights.isfinite().all()
        """


@pytest.mark.skipif(not parts.ON_GPU, reason="only a GPU works on while the host goes on")
@pytest.mark.parametrize("body", [ALLREDUCES, OPTIMIZER], ids=["20 allreduces", "a step of the optimizer"])
def test_the_host_waits_for_nothing(
    tmp_path: Path, body: str, record_property: Callable[[str, object], None], request: pytest.FixtureRequest
) -> None:
    """A step is submitted and synchronized in a tenth of the time that the device is still asleep."""
    job = parts.launch(tmp_path, 2, ASLEEP + body)
    assert job.wait() == 0, job.report()
    took = [[float(word) for word in line.split()] for line in job.lines("took ")]
    assert len(took) == 2, job.report()
    for host_ms, asleep_ms, asleep in took:
        record_property(request.node.name, f"{host_ms:.2f} ms of {asleep_ms:.0f} ms asleep")
        assert asleep == 1 and host_ms < asleep_ms / 10, took


@pytest.mark.skipif(not parts.ON_GPU, reason="a CPU has no streams")
def test_what_a_script_does_on_a_stream_of_its_own(tmp_path: Path) -> None:
    """It is reduced when that stream has computed it, and that stream waits for the results."""
    body = """
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 7)).to(device)
        twin = copy.deepcopy(model)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        plain = torch.optim.SGD(twin.parameters(), lr=0.1)
        inputs = [torch.full((8, 64), (1.0 + rank) / 50, device=device) for rank in range(hvd.size())]
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for turn in range(30):
                tensor = torch.zeros(1 << 20, device=device)
                torch.cuda._sleep(5_000_000)
                tensor += 1 + hvd.rank()
                handle = hvd.allreduce_async(tensor, op=hvd.Sum, name="tensor")
                doubled = hvd.synchronize(handle) * 2
                expected = float(hvd.size() * (hvd.size() + 1))
                assert torch.equal(doubled.cpu(), torch.full((1 << 20,), expected)), (turn, doubled)
                optimizer.zero_grad()
                torch.cuda._sleep(5_000_000)
                model(inputs[hvd.rank()]).square().mean().backward()
                optimizer.step()
                plain.zero_grad()
                torch.stack([twin(each).square().mean() for each in inputs]).mean().backward()
                plain.step()
                for ours, theirs in zip(model.parameters(), twin.parameters()):
                    assert torch.allclose(ours.cpu(), theirs.cpu(), rtol=1e-4, atol=1e-5), turn
        print("was right", hvd.rank(), flush=True)
        """
    job = parts.launch(tmp_path, 2, "import copy\n" + textwrap.dedent(body))
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("was right ")) == ["0", "1"], job.report()


@has_graphs
def test_a_stream_that_is_captured_is_refused(tmp_path: Path) -> None:
    body = """
        assert hvd.allreduce(torch.ones(1000, device=device), op=hvd.Sum, name="before").sum() == 1000 * hvd.size()
        tensor = torch.ones(1000, device=device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                doubled = tensor * 2
                hvd.allreduce(doubled, name="captured")
        except ValueError as error:
            assert "captured into a CUDA graph" in str(error), error
            print("refused", hvd.rank(), flush=True)
        # Another one can be made, and collectives go on beside it.
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            doubled = tensor * 2
        graph.replay()
        result = hvd.allreduce(doubled, op=hvd.Sum, name="after")
        assert torch.equal(result.cpu(), torch.full((1000,), 2.0 * hvd.size()))
        print("went on", hvd.rank(), flush=True)
        """
    job = parts.launch(tmp_path, 2, body)
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("refused ")) == sorted(job.lines("went on ")) == ["0", "1"], job.report()


@has_graphs
def test_a_capture_beside_collectives_is_not_spoilt(tmp_path: Path) -> None:
    """While one rank captures, some collectives are at work on its device, and those are put there for which the other
    has been late."""
    body = """
        tensors = [torch.ones(1 << 18, device=device) for _ in range(8)]

        def submit(which):
            return [hvd.allreduce_async_(tensors[i], op=hvd.Sum, name=f"beside {i}") for i in which]

        for handle in submit(range(8)):
            hvd.synchronize(handle)
        inputs, side = torch.ones(1000, device=device), torch.cuda.Stream()
        with torch.cuda.stream(side):
            inputs * 2  # what is called for the first time may be loaded, which a capture forbids
        torch.cuda.synchronize()
        for turn in range(6):
            hvd.barrier()
            torch.cuda._sleep(100_000_000)
            handles = submit(range(4))
            if hvd.rank() != turn % 2:
                time.sleep(0.05)
                handles += submit(range(4, 8))
            else:
                handles += submit(range(4, 8))
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.stream(side):
                    graph.capture_begin()
                    doubled = inputs * 2
                    time.sleep(0.15)
                    graph.capture_end()
                graph.replay()
            for handle in handles:
                hvd.synchronize(handle)
            torch.cuda.synchronize()
            assert hvd.rank() != turn % 2 or torch.equal(doubled.cpu(), torch.full((1000,), 2.0))
        expected = float(hvd.size() ** 7)
        assert all(torch.equal(each.cpu(), torch.full((1 << 18,), expected)) for each in tensors)
        print("captured", hvd.rank(), flush=True)
        """
    job = parts.launch(tmp_path, 2, body)
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("captured ")) == ["0", "1"], job.report()
