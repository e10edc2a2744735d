"""What a script does around a step of the optimizer, beside its gradients: ranks train alike, and as torch says."""

from __future__ import annotations

import threading
import warnings

import torch
from gradients_worker import run
from torch import nn

import farandole.torch as hvd


class Net(nn.Module):
    """One layer of it has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.last, self.unused = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.first(inputs)))


def batches(count: int, rank: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rank)
    return [torch.randn(4, 6, generator=generator) for _ in range(count)]


def own(count: int = 8) -> list[torch.Tensor]:
    return batches(count, hvd.rank())


def of_all(count: int = 8) -> list[torch.Tensor]:
    """The same, of all ranks together."""
    return [torch.cat(each) for each in zip(*(batches(count, rank) for rank in range(hvd.size())))]


def loss_of(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return (model(inputs) - 1).square().mean()


def check_like(model: nn.Module, twin: nn.Module) -> None:
    for ours, theirs in zip(model.parameters(), twin.parameters()):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5), (ours - theirs).abs().max()


def scaled_steps(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: list[torch.Tensor], bad: int) -> None:
    scaler = torch.amp.GradScaler(torch.empty(0).device.type, init_scale=64.0)
    for step, each in enumerate(inputs):
        optimizer.zero_grad()
        loss = loss_of(model, each)
        scaler.scale(loss * float("inf") if step == bad else loss).backward()
        scaler.step(optimizer)
        scaler.update()


def case_a_scaler_sees_the_gradients_of_all_where_a_layer_has_none() -> str | None:
    if not hasattr(torch.amp, "GradScaler"):
        return "left out"
    for options in ({}, {"fused": True}, {"foreach": True}):
        for bad in (-1, 3):
            model, twin = Net(), Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **options)
            optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
            scaled_steps(model, optimizer, own(), bad if hvd.rank() == 1 else -1)
            scaled_steps(twin, torch.optim.SGD(twin.parameters(), lr=0.1, **options), of_all(), bad)
            check_like(model, twin)
    return None


def replace_first(model: Net, optimizer: torch.optim.Optimizer) -> None:
    """As scripts do that prune or add rows."""
    group = optimizer.param_groups[0]
    old = model.first.weight
    place = next(i for i, each in enumerate(group["params"]) if each is old)
    group["params"][place] = model.first.weight = nn.Parameter(old.detach().clone())


def case_parameters_that_are_put_into_groups_are_reduced() -> None:
    model, twin = Net(), Net()
    names = [(f"replaced.{name}", p) for name, p in model.named_parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), names)
    reference = torch.optim.SGD(twin.parameters(), lr=0.1)
    for step, (mine, all_) in enumerate(zip(own(), of_all())):
        for each, net, inputs in ((optimizer, model, mine), (reference, twin, all_)):
            each.zero_grad()
            loss_of(net, inputs).backward()
            if step == 4:
                replace_first(net, each)  # its gradient is lost
            each.step()
            if step in (1, 2):
                replace_first(net, each)
            if step == 5:
                each.param_groups[0]["params"].pop()  # of the layer that is not used
    check_like(model, twin)
    assert len(optimizer._reducer.slots) == 5
    assert sorted(optimizer._parameter_names.values())[0] == "noname.0.0"


def case_a_gradient_of_what_was_taken_out_is_told() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, [(f"out.{name}", p) for name, p in model.named_parameters()])
    with warnings.catch_warnings(record=True) as told:
        for inputs in own(4):
            optimizer.zero_grad()
            loss_of(model, inputs).backward()
            optimizer.step()
            optimizer.param_groups[0]["params"][:] = list(model.last.parameters())
    assert {str(one.message).split(" ")[0] for one in told} == {"`out.first.weight`", "`out.first.bias`"}, told
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.param_groups[0]["params"].extend(model.first.parameters())
        for inputs in own(2):
            optimizer.zero_grad()
            loss_of(model, inputs).backward()
            optimizer.step()
    gradients = hvd.allgather(model.first.weight.grad[None], name="out.gradients")
    assert torch.equal(gradients[0], gradients[1])
    weights = hvd.allgather(model.last.weight.detach()[None], name="out.weights")
    assert torch.equal(weights[0], weights[1])


class Inside:
    """An optimizer whose groups are those of one inside of it."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner

    @property
    def param_groups(self) -> list[dict]:
        return self.inner.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict]) -> None:
        self.inner.param_groups = groups

    def zero_grad(self) -> None:
        self.inner.zero_grad()

    def step(self) -> None:
        self.inner.step()

    def state_dict(self) -> dict:
        return self.inner.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.inner.load_state_dict(state)


def case_an_optimizer_inside_of_one() -> None:
    model, twin = Net(), Net()
    inside = Inside(torch.optim.SGD(model.parameters(), lr=0.1))
    optimizer = hvd.DistributedOptimizer(inside, [(f"inside.{name}", p) for name, p in model.named_parameters()])
    reference = torch.optim.SGD(twin.parameters(), lr=0.1)
    for mine, all_ in zip(own(), of_all()):
        for each, net, inputs in ((optimizer, model, mine), (reference, twin, all_)):
            each.load_state_dict(each.state_dict())
            each.zero_grad()
            loss_of(net, inputs).backward()
            each.step()
    check_like(model, twin)


def case_a_state_that_is_loaded_doubles_no_hooks_and_keeps_schedulers() -> None:
    for op in (hvd.Average, hvd.Adasum):
        model = Net()
        wrapped = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(wrapped, 1, 0.5)
        names = [(f"loaded.{op}.{name}", p) for name, p in model.named_parameters()]
        optimizer = hvd.DistributedOptimizer(wrapped, names, op=op)
        calls: list[str] = []
        optimizer.register_step_pre_hook(lambda *_, calls=calls: calls.append("before"))
        optimizer.register_step_post_hook(lambda *_, calls=calls: calls.append("behind"))
        optimizer.load_state_dict(optimizer.state_dict())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for inputs in own(3):
                optimizer.zero_grad()
                loss_of(model, inputs).backward()
                optimizer.step()
                scheduler.step()
        assert calls == ["before", "behind"] * 3, calls
        assert optimizer.param_groups[0]["lr"] == scheduler.get_last_lr()[0] == 0.0125


def case_lbfgs_searches_alike_on_all_ranks() -> None:
    model, twin = Net(), Net()
    options = {"lr": 1, "max_iter": 5, "line_search_fn": "strong_wolfe"}
    used = [p for name, p in model.named_parameters() if "unused" not in name]
    names = [(f"searched.{name}", p) for name, p in model.named_parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS(used, **options), names)
    reference = torch.optim.LBFGS([p for name, p in twin.named_parameters() if "unused" not in name], **options)
    losses = []
    for each, net, inputs in ((optimizer, model, own(1)[0]), (reference, twin, of_all(1)[0])):

        def closure(each: torch.optim.Optimizer = each, net: nn.Module = net, inputs: torch.Tensor = inputs) -> object:
            each.zero_grad()
            loss = loss_of(net, inputs)
            loss.backward()
            return loss

        losses.append([each.step(closure).item() for _ in range(2)])
    check_like(model, twin)
    assert torch.allclose(*map(torch.tensor, losses), rtol=1e-4), losses


def case_state_beside_the_parameters_is_broadcast() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of(model, own(1)[0]).backward()
    optimizer.step()
    optimizer.state["beside"] = {"tensor": torch.full((3,), 7.0 - hvd.rank()), "number": hvd.rank()}
    if hvd.rank() == 0:
        optimizer.state["plain"] = "text"
        optimizer.state["lock"] = threading.Lock()
    else:
        optimizer.state["not the root's"] = {}
    optimizer.state[model] = hvd.rank()
    with warnings.catch_warnings(record=True) as told:
        hvd.broadcast_optimizer_state(optimizer, 0)
    assert [str(one.message).split(":")[0] for one in told] == [
        "the optimizer's state of 'lock' is not broadcast" for _ in range(hvd.rank() == 0)
    ]
    assert optimizer.state[model] == hvd.rank()
    beside = optimizer.state["beside"]
    assert torch.equal(beside["tensor"], torch.full((3,), 7.0)) and beside["number"] == 0
    assert {key for key in optimizer.state if isinstance(key, str)} - {"lock"} == {"beside", "plain"}


if __name__ == "__main__":
    run(globals())
