"""What ranks have to agree upon without asking: groups, sparse gradients, names, and what outlives a job.

`optimizer_worker.py`: the size is 2, or factors of the average would round.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import torch
from gradients_worker import DEVICE, Odd, Pair, batch, model_of, plain_loss, sgd, whole
from torch import nn

import farandole.torch as hvd


def lists_of(model: nn.Module) -> list[list[torch.Tensor]]:
    weights = list(model.parameters())
    return [[weights[0], weights[5], weights[3]], [weights[1]], []]


def case_groups_are_equal_to_single_gradients() -> None:
    for groups in (1, 2, 4, 100, "lists"):
        model = model_of()
        pair = Pair(model, groups=lists_of(model) if groups == "lists" else groups)
        for step in range(4):
            pair.step(set_to_none=step % 2 == 0)
            assert all(pair.shared())


def case_groups_with_predivision() -> None:
    model = model_of()
    pair = Pair(model, groups=2, gradient_predivide_factor=4.0)
    for _ in range(3):
        pair.step()
    # Where the sum alone is too large for the type.
    parameters = [nn.Parameter(torch.zeros(8)), nn.Parameter(torch.zeros(3))]
    named = [(f"large.{i}", p) for i, p in enumerate(parameters)]
    options = {"groups": 1, "gradient_predivide_factor": float(hvd.size())}
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), named, **options)
    sum(3e38 * p.sum() for p in parameters).backward()
    optimizer.synchronize()
    assert all(torch.equal(p.grad, torch.full_like(p, 3e38)) for p in parameters), parameters[0].grad


def case_groups_with_parameters_that_come_and_go() -> None:
    for groups in (1, 2):
        pair = Pair(Odd(), groups=groups)
        for _ in range(3):
            pair.zero_grad()
            pair.backward()
            for p in pair.twin.never.parameters():
                p.grad = torch.zeros_like(p)
            pair.synchronize()
            pair.apply()
            assert all(pair.shared())
    model = model_of()
    model[0].weight.requires_grad_(False)
    pair = Pair(model, groups=2)
    pair.step()
    for each in (pair.model, pair.twin):
        each[0].weight.requires_grad_(True)
        each[2].bias.requires_grad_(False)
    for _ in range(3):
        pair.step()
    assert pair.model[2].bias.grad is None and pair.model[0].weight.grad is not None


def case_groups_and_accumulation() -> None:
    pair = Pair(model_of(), groups=2, backward_passes_per_step=2)
    for step in range(3):
        pair.zero_grad()
        for turn in range(2):
            inputs = [batch(10 * step + turn, rank, torch.float32) for rank in range(hvd.size())]
            whole(pair.model, inputs[hvd.rank()]).backward()
            for each in inputs:
                whole(pair.twin, each).backward()
        for p in pair.twin.parameters():
            p.grad /= hvd.size()
        pair.synchronize()
        pair.apply()


def case_groups_follow_the_order_of_rank_0() -> None:
    parameters = {name: nn.Parameter(torch.zeros(2)) for name in "abcd"}
    order = "abcd" if hvd.rank() == 0 else "dbca"
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameters[name] for name in order], lr=1.0),
        [(name, parameters[name]) for name in order],
        op=hvd.Sum,
        groups=2,
    )
    for index, name in enumerate("abcd"):
        (parameters[name] * (index + 10 * hvd.rank())).sum().backward()
    optimizer.step()
    assert [parameters[name].tolist() for name in "abcd"] == [
        [-float(sum(i + 10 * rank for rank in range(hvd.size())))] * 2 for i in range(4)
    ]
    assert [[m.slot.name for m in g.members] for g in optimizer._reducer.groups] == [["a", "b"], ["c", "d"]]


def case_a_gradient_that_differs_is_named_in_a_group() -> None:
    parameters = [nn.Parameter(torch.zeros(2 + (i == 1 and hvd.rank()))) for i in range(3)]
    named = [(f"differs.{i}", p) for i, p in enumerate(parameters)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), named, groups=1)
    try:
        sum(p.sum() for p in parameters).backward()
    except hvd.TensorMismatchError as error:
        assert "differs.1" in str(error) and "shapes" in str(error), error
    else:
        raise AssertionError("no error")
    assert parameters[2].grad.tolist() == [1, 1] and not optimizer._reducer.outstanding()


class Words(nn.Module):
    """Embeddings of which a batch uses some rows, or none."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Embedding(20, 3, sparse=sparse)
        self.second = nn.EmbeddingBag(10, 3, sparse=sparse, mode="sum")
        self.last = nn.Linear(3, 2)

    def forward(self, words: torch.Tensor, use: str) -> torch.Tensor:
        hidden = torch.ones(len(words), 3)
        if "1" in use:
            hidden = hidden + self.first(words)
        if "2" in use:
            hidden = hidden * self.second(words.unsqueeze(1) % 10)
        return self.last(hidden).square().mean()


def words(step: int, rank: int) -> torch.Tensor:
    return torch.randint(20, (6,), generator=torch.Generator().manual_seed(100 * step + rank))


def train_words(uses: list[tuple[str, str]], tolerance: float = 1e-6, passes: int = 1, **options: Any) -> nn.Module:
    """Sparse with our optimizer beside dense with all batches; `uses`: per step, what even and odd ranks use."""
    ours, twin = Words(True), Words(False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(ours.parameters(), lr=0.5),
        ours.named_parameters(),
        backward_passes_per_step=passes,
        **options,
    )
    reference = torch.optim.SGD(twin.parameters(), lr=0.5)
    for step, use in enumerate(uses):
        optimizer.zero_grad()
        reference.zero_grad()
        for turn in range(passes):
            ours(words(10 * step + turn, hvd.rank()), use[hvd.rank() % 2]).backward()
            for rank in range(hvd.size()):
                (twin(words(10 * step + turn, rank), use[rank % 2]) / hvd.size()).backward()
        optimizer.step()
        reference.step()
        for a, b in zip(ours.parameters(), twin.parameters()):
            assert torch.allclose(a, b, atol=tolerance, rtol=0), (step, (a - b).abs().max())
    assert not optimizer._reducer.outstanding()
    return ours


ALL = [("12", "12")] * 3
SOME = [("1", "12"), ("", ""), ("2", "1"), ("12", ""), ("12", "12")]


def case_sparse_gradients() -> None:
    model = train_words(ALL)
    assert model.first.weight.grad.is_sparse and model.second.weight.grad.is_sparse
    train_words(ALL, passes=2)
    train_words(ALL, tolerance=1e-3, compression=hvd.Compression.fp16)
    train_words(ALL, groups=1)


def case_sparse_gradients_of_some_ranks() -> None:
    """A rank without gradient does not know that it is sparse elsewhere."""
    for first in range(len(SOME)):
        model = train_words(SOME[first:] + SOME[:first])
        assert model.first.weight.grad is None or model.first.weight.grad.is_sparse
    train_words(SOME, groups=1)
    train_words(SOME, groups=2)
    train_words(SOME[1:] + SOME[:1], groups=[])


def case_sparse_gradients_for_an_optimizer_that_wants_them() -> None:
    embedding = nn.Embedding(5, 2, sparse=True)
    hvd.broadcast_parameters(embedding.state_dict(), 0)
    before = embedding.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(list(embedding.parameters())), op=hvd.Sum)
    if hvd.rank() == 1:
        embedding(torch.tensor([3, 3])).sum().backward()
    optimizer.step()
    assert embedding.weight.grad.to_dense()[3].tolist() == [2, 2]
    changed = (embedding.weight != before).any(1)
    assert changed.tolist() == [False, False, False, True, False]


def case_sparse_as_dense() -> None:
    model = train_words(ALL, sparse_as_dense=True)
    assert model.first.weight.grad.is_sparse and model.first.weight.grad.sparse_dim() == 1
    train_words(SOME, sparse_as_dense=True)
    train_words(SOME, sparse_as_dense=True, groups=2)


def case_sparse_as_dense_in_a_group_that_falls_apart() -> None:
    table, other = nn.Parameter(torch.zeros(4, 2)), nn.Parameter(torch.zeros(3 + hvd.rank()))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([table, other], lr=1.0), groups=1, sparse_as_dense=True)
    try:
        (nn.functional.embedding(torch.tensor([1]), table, sparse=True).sum() + other.sum()).backward()
    except hvd.TensorMismatchError:
        pass
    assert table.grad.is_sparse and table.grad.to_dense().tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]
    assert not optimizer._reducer.outstanding()


def case_a_dense_gradient_meets_a_sparse_one() -> None:
    weight = nn.Parameter(torch.zeros(4, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=hvd.Sum)
    if hvd.rank() == 0:
        nn.functional.embedding(torch.tensor([1]), weight, sparse=True).sum().backward()
    else:
        (2 * weight).sum().backward()
    optimizer.step()
    dense = -2 * (hvd.size() - 1)
    assert weight.tolist() == [[dense] * 2, [dense - 1] * 2, [dense] * 2, [dense] * 2]
    assert weight.grad.is_sparse == (hvd.rank() == 0)


def case_dense_gradients_travel_as_float16() -> None:
    for options in ({}, {"groups": 2}):
        model = model_of()
        twin = copy.deepcopy(model)
        how = {"compression": hvd.Compression.fp16, **options}
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **how)
        for step in range(4):
            twin.load_state_dict(model.state_dict())
            optimizer.zero_grad()
            plain_loss(model, batch(step, hvd.rank(), torch.float32)).backward()
            twin.zero_grad()
            for rank in range(hvd.size()):
                (plain_loss(twin, batch(step, rank, torch.float32)) / hvd.size()).backward()
            for ours, theirs in zip(model.parameters(), twin.parameters()):
                assert ours.grad.dtype is torch.float32 and ours.grad.device == DEVICE
                assert torch.equal(ours.grad, ours.grad.half().float()), "a result that float16 does not have"
                difference = (ours.grad - theirs.grad).abs().max()
                assert torch.allclose(ours.grad, theirs.grad, rtol=2e-3, atol=2e-5), difference
            optimizer.step()
        flat = torch.cat([p.detach().flatten() for p in model.parameters()])
        everyone = hvd.allgather(flat[None], name="weights")
        assert all(torch.equal(each, everyone[0]) for each in everyone)


def case_equal_names_in_several_optimizers() -> None:
    """A loss that goes through both models, as that of a generator: allreduces of both are under way together."""
    pairs = [Pair(model_of(seed), synchronize_in_backward=False) for seed in (1, 2)]
    for step in range(4):
        for pair in pairs:
            pair.zero_grad()
            pair.backward()
        assert all(pair.optimizer._reducer.outstanding() for pair in pairs)
        for pair in pairs if (step + hvd.rank()) % 2 else reversed(pairs):
            pair.synchronize()
            pair.apply()
            assert all(pair.shared())


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    assert hvd.size() > 1
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            case()
            os.write(1, b"passed %s\n" % name.encode())
    hvd.shutdown()


if __name__ == "__main__":
    main()
