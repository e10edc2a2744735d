from __future__ import annotations

from types import ModuleType

import pytest
import torch

from farandole import exceptions
from farandole.core import handles
from farandole.torch import elastic
from farandole.torch.elastic import state as state_module


def train(hvd: ModuleType) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), model.named_parameters())
    step(model, optimizer)
    return model, optimizer


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()


def snapshot(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    moments = [value for state in optimizer.state.values() for value in state.values()]
    return [tensor.clone() for tensor in [*model.state_dict().values(), *moments]]


def equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(torch.equal(a, b) for a, b in zip(first, second))


def test_everything_goes_back_to_the_commit(hvd: ModuleType) -> None:
    model, optimizer = train(hvd)
    sampler = elastic.ElasticSampler(range(10))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    state = elastic.TorchState(model, optimizer, sampler=sampler, schedule=schedule, losses=[], batch=0)
    assert state.model is model and state.optimizer is optimizer and state.sampler is sampler
    state.losses.append(1.0)
    sampler.record_batch(0, 3)
    state.commit()
    saved, rate = snapshot(model, optimizer), optimizer.param_groups[0]["lr"]
    for _ in range(2):
        step(model, optimizer)
        schedule.step()
        sampler.record_batch(1, 3)
        state.losses.append(2.0)
        state.batch = 7
        assert not equal(saved, snapshot(model, optimizer))
        state.restore()
        assert equal(saved, snapshot(model, optimizer))
        assert optimizer.param_groups[0]["lr"] == rate and schedule.optimizer is optimizer
        assert (sampler.processed_num, state.losses, state.batch) == (3, [1.0], 0)
        assert all(parameter.grad is None for parameter in model.parameters())


def test_the_first_values_are_a_commit(hvd: ModuleType) -> None:
    model, optimizer = train(hvd)
    saved = snapshot(model, optimizer)
    state = elastic.TorchState(model=model, optimizer=optimizer)
    step(model, optimizer)
    state.restore()
    assert equal(saved, snapshot(model, optimizer))


def test_a_replaced_model_is_saved(hvd: ModuleType) -> None:
    state = elastic.TorchState(model=torch.nn.Linear(2, 2))
    other = torch.nn.Linear(2, 2)
    weight = other.weight.detach().clone()
    state.model = other
    with torch.no_grad():
        other.weight.zero_()
    state.restore()
    assert torch.equal(other.weight, weight) and state.model is other


def test_sync_saves(hvd: ModuleType) -> None:
    model, optimizer = train(hvd)
    state = elastic.TorchState(model, optimizer, sampler=elastic.ElasticSampler(range(10)), batch=0)
    step(model, optimizer)
    state.sampler.record_batch(0, 4)
    state.batch = 5
    state.sync()
    saved = snapshot(model, optimizer)
    step(model, optimizer)
    state.sampler.record_batch(0, 4)
    state.batch = 6
    state.restore()
    assert equal(saved, snapshot(model, optimizer)) and (state.batch, state.sampler.processed_num) == (5, 4)


def test_training_goes_on_after_a_step_that_was_cut_short(hvd: ModuleType) -> None:
    model, optimizer = train(hvd)
    state = elastic.TorchState(model, optimizer)
    saved = snapshot(model, optimizer)
    turns = []

    @elastic.run
    def function(state: elastic.TorchState) -> None:
        turns.append(snapshot(model, optimizer))
        if len(turns) == 1:
            # Allreduces are under way; they are nobody's any more.
            model(torch.randn(8, 4)).square().sum().backward()
            raise exceptions.HorovodInternalError("a peer was lost")
        step(model, optimizer)

    function(state)
    assert hvd.is_initialized() and len(turns) == 2 and equal(turns[1], saved)
    assert not equal(snapshot(model, optimizer), saved)


def test_backward_then_commit_that_interrupts(hvd: ModuleType) -> None:
    model, optimizer = train(hvd)
    state = elastic.TorchState(model, optimizer, turn=0)

    @elastic.run
    def function(state: elastic.TorchState) -> None:
        state.turn += 1
        model(torch.randn(8, 4)).square().sum().backward()
        if state.turn == 1:
            state.on_hosts_updated(1.0, 2)
            state.check_host_updates()
        optimizer.step()

    function(state)
    assert state.turn == 2


def test_registry(hvd: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Counter:
        def __init__(self) -> None:
            self.value = 0

        def __deepcopy__(self, memo: dict) -> None:
            raise AssertionError("has a handler")

    class CounterHandler(state_module.StateHandler):
        def save(self) -> None:
            self.saved = self.value.value

        def restore(self) -> None:
            self.value.value = self.saved

        def sync(self) -> None:
            self.save()

    before = list(state_module.get_handler_registry())
    monkeypatch.setattr(state_module, "_registry", before)
    state_module.set_handler_registry([*before, (Counter, CounterHandler)])
    counter = Counter()
    state = elastic.TorchState(counter=counter)
    counter.value = 3
    state.restore()
    assert counter.value == 0


@pytest.mark.parametrize("kind", ["model", "optimizer"])
def test_a_sync_saves_nothing_that_a_lost_peer_left_undone(
    hvd: ModuleType, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = elastic.TorchState(**{kind: model if kind == "model" else optimizer})
    with torch.no_grad():
        model.weight.fill_(7)
    optimizer.param_groups[0]["lr"] = 7

    def settle() -> bool:
        raise exceptions.PeerLostError("rank 0 was lost")

    monkeypatch.setattr(handles, "settle", settle)
    with pytest.raises(exceptions.PeerLostError):
        state.sync()
    state.restore()
    assert optimizer.param_groups[0]["lr"] == (7 if kind == "model" else 0.1)
    assert model.weight[0, 0] != 7 if kind == "model" else model.weight[0, 0] == 7
