from __future__ import annotations

import copy
from types import ModuleType

import pytest
import torch

from farandole.torch import functions


def test_broadcast_parameters(hvd: ModuleType) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    before = copy.deepcopy(model.state_dict())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_parameters(list(model.named_parameters()), root_rank=0)
    hvd.broadcast_parameters(list(model.parameters()), root_rank=0)
    hvd.broadcast_parameters({"present": torch.ones(1), "absent": None}, root_rank=0)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    with pytest.raises(ValueError, match="invalid params of type"):
        hvd.broadcast_parameters(model.named_parameters(), root_rank=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
        lambda p: torch.optim.SGD(p, lr=0.1),
    ],
)
@pytest.mark.parametrize("steps", [0, 2])
def test_broadcast_optimizer_state_changes_no_weight(hvd: ModuleType, make: object, steps: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = make(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    after = optimizer.state_dict()
    assert after["param_groups"] == state["param_groups"]
    assert after["state"].keys() == state["state"].keys()
    for index, entries in state["state"].items():
        for key, value in entries.items():
            same = torch.equal(value, after["state"][index][key]) if torch.is_tensor(value) else value is None
            assert same, key


def test_state_is_received_where_the_root_has_it(monkeypatch: pytest.MonkeyPatch, hvd: ModuleType) -> None:
    """A rank without state gets that of rank 1, which is on a device (here: "meta") for the weight's momentum only."""
    model = torch.nn.Linear(2, 1).to("meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    described = functions._Description()
    described.groups = [dict(optimizer.param_groups[0]) | {"lr": described.take("lr", torch.ones(1, device="meta"), 0)}]
    del described.groups[0]["params"]
    described.sizes = [2]
    momentum, step = torch.empty(1, 2, device="meta"), torch.ones(())
    described.states = {0: {"momentum": described.take("m", momentum, 0), "step": described.take("step", step, 0)}}
    received: list[torch.Tensor] = []
    monkeypatch.setattr(functions.basics, "rank", lambda: 0)
    monkeypatch.setattr(functions, "broadcast_object", lambda *_, **__: described)
    monkeypatch.setattr(functions.operations, "broadcast_async_", lambda tensor, *_: received.append(tensor))
    monkeypatch.setattr(functions, "synchronize_all", list)
    functions.broadcast_optimizer_state(optimizer, root_rank=1)
    assert [(str(tensor.device), tuple(tensor.shape)) for tensor in received] == [
        ("meta", (1,)),
        ("meta", (1, 2)),
        ("cpu", ()),
    ]
    state = optimizer.state[model.weight]
    assert state["momentum"] is received[1] and state["step"] is received[2]


def test_broadcast_optimizer_state_refuses_lbfgs(hvd: ModuleType) -> None:
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS([torch.nn.Parameter(torch.ones(1))]), root_rank=0)


def test_objects(hvd: ModuleType) -> None:
    obj = {"a": [1, (2, "three")], "f": lambda x: x + 1}
    assert hvd.broadcast_object(obj, root_rank=0) is obj
    (gathered,) = hvd.allgather_object(obj)
    assert gathered["a"] == obj["a"] and gathered["f"](1) == 2
    assert hvd.allgather_object(None, name="nothing") == [None]
