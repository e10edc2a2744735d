"""What scripts do with tensors on GPUs beside the workers' cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu import parts


@pytest.mark.skipif(not parts.ON_GPU, reason="on a CPU all tensors are in host memory")
def test_a_host_tensor_that_meets_one_on_a_gpu_is_an_error_on_all_ranks(tmp_path: Path) -> None:
    body = """
        for turn in range(2):
            tensor = torch.ones(5, device=device if hvd.rank() == turn else "cpu")
            try:
                hvd.allreduce(tensor, name="x")
            except hvd.TensorMismatchError as error:
                assert "Mismatched CPU/GPU device selection" in str(error), error
                print("refused", hvd.rank(), flush=True)
        # The same on all ranks, each in its turn.
        for where in (device, "cpu", device):
            assert hvd.allreduce(torch.ones(5, device=where), op=hvd.Sum, name="x").tolist() == [hvd.size()] * 5
        print("went on", hvd.rank(), flush=True)
        """
    job = parts.launch(tmp_path, 2, body)
    assert job.wait() == 0, job.report()
    assert sorted(job.lines("refused ")) == ["0", "0", "1", "1"], job.report()
    assert sorted(job.lines("went on ")) == ["0", "1"], job.report()


def test_functions_compiled_by_inductor(tmp_path: Path) -> None:
    """The default backend of torch.compile: a collective inside of the graph, and a model with our optimizer."""
    body = """
        try:
            torch.compile(lambda x: x.sin() + 1)(torch.ones(8, device=device))
        except Exception as error:
            print("cannot compile:", type(error).__name__, " ".join(str(error).split())[:300], flush=True)
            sys.exit()

        def function(x):
            return hvd.allreduce(2 * x.tanh(), name="sum", op=hvd.Sum) * 3 + 1

        compiled = torch.compile(function, fullgraph=True)
        for step in range(3):
            results = []
            for each in (function, compiled):
                x = torch.full((4, 3), 0.1 * (step + hvd.rank()), device=device, requires_grad=True)
                y = each(x)
                y.square().sum().backward()
                results.append((y.detach(), x.grad))
            for expected, got in zip(*results):
                assert got.device == device and torch.allclose(got, expected, atol=1e-5), (step, got, expected)

        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.05), model.named_parameters())
        run, losses = torch.compile(model, fullgraph=True), []
        x = torch.linspace(-1, 1, 12, device=device).view(4, 3) + 0.1 * hvd.rank()
        for step in range(8):
            optimizer.zero_grad()
            loss = (run(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        flat = torch.cat([p.detach().flatten() for p in model.parameters()])
        everyone = hvd.allgather(flat[None])
        assert all(torch.equal(each, everyone[0]) for each in everyone) and losses[-1] < losses[0], losses
        print("compiled", hvd.rank(), flush=True)
        """
    # Without processes of its own, of which some might outlive the ranks.
    job = parts.launch(tmp_path, 2, body, TORCHINDUCTOR_COMPILE_THREADS="1")
    reasons = job.lines("cannot compile: ")
    if reasons and not job.lines("compiled "):
        pytest.skip(f"inductor cannot compile here: {reasons[0]}")
    assert job.wait() == 0 and sorted(job.lines("compiled ")) == ["0", "1"], job.report()


def test_sparse_gradients_in_groups(tmp_path: Path) -> None:
    """Beside dense ones with the batches of all ranks, in a script that names its device for each tensor."""
    body = """
        def make(sparse):
            torch.manual_seed(0)
            return torch.nn.Sequential(torch.nn.Embedding(20, 3, sparse=sparse), torch.nn.Linear(3, 2)).to(device)

        def loss_of(model, step, rank):
            words = torch.randint(20, (6,), generator=torch.Generator().manual_seed(10 * step + rank)).to(device)
            # In some steps one rank has no gradient of the embedding.
            known = torch.ones(6, 3, device=device) if step % 3 == rank else model[0](words)
            return model[1](known).square().mean()

        ours, twin = make(True), make(False)
        optimizer = torch.optim.SGD(ours.parameters(), lr=0.5)
        optimizer = hvd.DistributedOptimizer(optimizer, ours.named_parameters(), groups=1)
        reference = torch.optim.SGD(twin.parameters(), lr=0.5)
        for step in range(6):
            optimizer.zero_grad()
            loss_of(ours, step, hvd.rank()).backward()
            optimizer.step()
            reference.zero_grad()
            for rank in range(hvd.size()):
                (loss_of(twin, step, rank) / hvd.size()).backward()
            reference.step()
            for a, b in zip(ours.parameters(), twin.parameters()):
                assert a.device == device and torch.allclose(a, b, atol=1e-6), (step, (a - b).abs().max())
        print("trained", hvd.rank(), flush=True)
        """
    job = parts.launch(tmp_path, 2, body)
    assert job.wait() == 0 and sorted(job.lines("trained ")) == ["0", "1"], job.report()
