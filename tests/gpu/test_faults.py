"""Ranks that die, and GPUs that fail, in elastic jobs."""

from __future__ import annotations

from pathlib import Path

import processes
import pytest
from gpu import parts

ELASTIC = ("--min-np", "2", "--max-np", "3")
# Once in the job: whoever is started in the place of the first one does not do it again.
ONCE = """
        def the_one():
            if hvd.size() < 3 or hvd.rank() != 2 or os.path.exists("done once"):
                return False
            open("done once", "w").close()
            return True
        """


def ended_with(job: processes.Job) -> bool:
    """Whether two ranks have ended together, or three, since the launcher has started another one in time."""
    return job.lines("ended with ") in (["2"] * 2, ["3"] * 3)


def test_a_killed_rank_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    """The next membership has a communicator of its own."""
    body = """
        state = hvd.elastic.TorchState(step=0)

        @hvd.elastic.run
        def train(state):
            while state.step < 40:
                if state.step == 10 and the_one():
                    os.kill(os.getpid(), signal.SIGKILL)
                total = hvd.allreduce(torch.ones(1000, device=device), op=hvd.Sum, name="x")
                assert torch.equal(total.cpu(), torch.full((1000,), float(hvd.size())))
                state.step += 1
                state.commit()

        train(state)
        print("ended with", hvd.size(), flush=True)
        """
    job = parts.launch(tmp_path, 3, ONCE + body, *ELASTIC)
    assert ended_with(job) and "rank 2" in job.stderr, job.report()


def test_training_goes_on_from_the_last_commit(tmp_path: Path) -> None:
    """Model and optimizer on the device, with a rank killed between two commits while the others reduce gradients."""
    body = """
        torch.manual_seed(hvd.rank())
        layers = (torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        model = torch.nn.Sequential(*layers).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        state = hvd.elastic.TorchState(model, optimizer, step=0, first=0.0)

        def loss_of(seed):
            generator = torch.Generator(device).manual_seed(seed)
            x = torch.randn(64, 8, device=device, generator=generator)
            return (model(x) - x.sum(1, keepdim=True)).square().mean()

        @hvd.elastic.run
        def train(state):
            while state.step < 80:
                if state.step == 18 and the_one():
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.zero_grad()
                loss = loss_of(3 * state.step + hvd.rank())
                loss.backward()
                optimizer.step()
                state.first = state.first or loss.item()
                state.step += 1
                if state.step % 5 == 0:
                    state.commit()

        train(state)
        of_optimizer = [value for values in optimizer.state.values() for value in values.values()]
        moments = [value for value in of_optimizer if value.dim()]
        assert len(of_optimizer) == 3 * len(moments) / 2 and all(value.device == device for value in moments)
        everything = [*model.parameters(), *of_optimizer]
        flat = torch.cat([value.detach().to(device, torch.float32).flatten() for value in everything])
        everyone = hvd.allgather(flat[None])
        assert all(torch.equal(each, everyone[0]) for each in everyone), (everyone - everyone[0]).abs().max()
        last = hvd.allreduce(loss_of(1000).detach()).item()
        assert last < state.first / 2, (state.first, last)
        print("ended with", hvd.size(), flush=True)
        """
    job = parts.launch(tmp_path, 3, ONCE + body, *ELASTIC)
    assert ended_with(job) and "going back to the last commit" in job.stderr, job.report()


@pytest.mark.skipif(not parts.ON_GPU, reason="no error of a CPU makes a process worthless that goes on")
def test_a_gpu_that_fails_ends_its_process_alone(tmp_path: Path) -> None:
    """A kernel of one rank reads where nothing is. CUDA serves that process no more, and the others go on."""
    body = """
        tensor, index = torch.ones(1000, device=device), torch.tensor([1 << 40], device=device)
        state = hvd.elastic.TorchState(step=0)

        @hvd.elastic.run
        def train(state):
            tensor.fill_(1.0)  # garbage, where a result never came
            while state.step < 40:
                if state.step == 10 and the_one():
                    print("reads out of range", flush=True)
                    tensor[index]
                # Nothing of torch's that would see the error first.
                hvd.allreduce_(tensor, name="x")
                state.step += 1
                if state.step % 5 == 0:
                    state.commit()

        train(state)
        torch.cuda.synchronize()
        assert torch.equal(tensor.cpu(), torch.ones(1000))
        print("ended with", hvd.size(), flush=True)
        """
    job = parts.launch(tmp_path, 3, ONCE + body, *ELASTIC)
    assert len(job.lines("reads out of range")) == 1 and ended_with(job), job.report()
    assert "DeviceLostError" in job.stderr, job.report()
