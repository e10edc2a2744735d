from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import nn

from farandole.base.variables import is_elastic


def make_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def loss_of(model: nn.Module, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(5, 6, dtype=torch.float64, generator=generator)
    return model(inputs).square().mean()


OPTIMIZERS = [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: torch.optim.Adam(p, lr=0.01),
    lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    lambda p: torch.optim.RMSprop(p, lr=0.01),
]


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize("predivide", [1.0, 4.0])
def test_same_weights_as_without(hvd: ModuleType, make: object, passes: int, predivide: float) -> None:
    plain, ours = make_model(), make_model()
    reference = make(plain.parameters())
    wrapped = make(ours.parameters())
    optimizer = hvd.DistributedOptimizer(
        wrapped,
        named_parameters=ours.named_parameters(),
        backward_passes_per_step=passes,
        gradient_predivide_factor=predivide,
    )
    assert isinstance(optimizer, type(wrapped)) and type(optimizer).__name__ == type(wrapped).__name__
    for step in range(10):
        for opt, model in ((reference, plain), (optimizer, ours)):
            opt.zero_grad()
            for sub in range(passes):
                loss_of(model, 100 * step + sub).backward()
            opt.step()
    for a, b in zip(plain.parameters(), ours.parameters()):
        assert torch.equal(a, b)


def test_parameters_elsewhere_than_on_torchs_default_device(hvd: ModuleType) -> None:
    """Which a script may have set; tensors of "meta" have no values."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Embedding(4, 6, sparse=True), nn.Linear(6, 3))
    ours = copy.deepcopy(plain)
    rows = torch.tensor([1, 3, 1])
    reference = torch.optim.SGD(plain.parameters(), lr=0.1)
    torch.set_default_device("meta")
    try:
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(ours.parameters(), lr=0.1), ours.named_parameters())
        for _ in range(3):
            for opt, model in ((reference, plain), (optimizer, ours)):
                opt.zero_grad()
                model(rows).square().mean().backward()
                opt.step()
    finally:
        torch.set_default_device(None)
    assert all(torch.allclose(a, b) for a, b in zip(plain.parameters(), ours.parameters()))


def test_hooks_start_during_backward(hvd: ModuleType) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    under_way = []
    model[0].weight.register_hook(lambda grad: under_way.append(optimizer._reducer.outstanding()))
    loss_of(model, 0).backward()
    # The last layer's gradients were on their way before the first layer's were computed.
    assert under_way == [True]
    optimizer.step()
    assert not optimizer._reducer.outstanding()


def test_compression_of_gradients(hvd: ModuleType) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.0), compression=hvd.Compression.fp16)
    loss_of(model, 0).backward()
    expected = [p.grad.half().double() for p in model.parameters()]
    optimizer.synchronize()
    assert all(torch.equal(p.grad, e) for p, e in zip(model.parameters(), expected))


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_takes_set_to_none(hvd: ModuleType, set_to_none: bool) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for step in range(3):
        loss_of(model, step).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
        gradients = [p.grad for p in model.parameters()]
        assert all((g is None) if set_to_none else (g == 0).all() for g in gradients)


def test_zero_grad_while_gradients_are_reduced(either: ModuleType) -> None:
    model = make_model()
    wrapped = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = either.DistributedOptimizer(wrapped, synchronize_in_backward=False)
    loss_of(model, 0).backward()
    with pytest.raises(AssertionError, match="race condition"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


def test_too_many_backward_passes(either: ModuleType) -> None:
    model = make_model()
    wrapped = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = either.DistributedOptimizer(wrapped, backward_passes_per_step=2, synchronize_in_backward=False)
    loss_of(model, 0).backward()
    loss_of(model, 1).backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, 2).backward()
    with pytest.raises(RuntimeError, match="was changed while it was being reduced"):
        optimizer.step()
    optimizer.set_backward_passes_per_step(1)
    assert optimizer.backward_passes_per_step == 1
    optimizer.zero_grad()
    loss_of(model, 3).backward()
    optimizer.step()


@pytest.mark.parametrize("move", [torch.Tensor.share_memory_, lambda grad: setattr(grad, "data", grad.clone())])
def test_a_gradient_that_is_moved_too_early(either: ModuleType, move: Callable[[torch.Tensor], None]) -> None:
    """The result would go where the gradient was. Its object and its version stay as they are."""
    model = make_model()
    wrapped = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = either.DistributedOptimizer(wrapped, synchronize_in_backward=False)
    loss_of(model, 0).backward()
    move(next(model.parameters()).grad)
    with pytest.raises(RuntimeError, match="was changed while it was being reduced"):
        optimizer.step()
    optimizer.zero_grad()
    loss_of(model, 0).backward()
    optimizer.step()


def test_a_gradient_that_is_changed_too_early(either: ModuleType) -> None:
    used, spare = (nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = either.DistributedOptimizer(torch.optim.SGD([used, spare], lr=1.0), [("used", used), ("spare", spare)])
    used.sum().backward()
    used.grad.mul_(0.5)
    with pytest.raises(RuntimeError, match="`used` was changed .*: `spare` had no gradient"):
        optimizer.step()
    optimizer.zero_grad()
    (used + spare).sum().backward()
    used.grad.mul_(0.5)
    optimizer.step()
    assert used.tolist() == [0.5, 0.5] and spare.tolist() == [0, 0]


def test_two_optimizers_of_one_parameter(either: ModuleType) -> None:
    shared, own = (nn.Parameter(torch.ones(2)) for _ in range(2))
    named = [("shared", shared), ("own", own)]
    first = either.DistributedOptimizer(torch.optim.SGD([shared, own], lr=1.0), named, groups=1)
    second = either.DistributedOptimizer(torch.optim.SGD([shared], lr=1.0), named[:1])
    with pytest.raises(RuntimeError, match="`shared` would be reduced by two DistributedOptimizers"):
        (shared + own).sum().backward()
    # As the error advises. Nothing was agreed upon before it.
    del second
    first.zero_grad()
    (shared + own).sum().backward()
    first.step()
    assert len(first._reducer.groups) == is_elastic() and shared.tolist() == [0, 0]


def test_an_optimizer_takes_the_place_of_one_that_is_gone(either: ModuleType) -> None:
    """A notebook's cell that is run again."""
    parameter = nn.Parameter(torch.ones(2))
    for _ in range(2):
        optimizer = either.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
        parameter.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert parameter.tolist() == [-1, -1]


def test_a_sparse_gradient(either: ModuleType) -> None:
    table = nn.Embedding(4, 2, sparse=True)
    optimizer = either.DistributedOptimizer(torch.optim.SparseAdam(table.parameters()))
    before = table.weight.detach().clone()
    table(torch.tensor([1, 1])).sum().backward()
    optimizer.step()
    assert table.weight.grad.layout is torch.sparse_coo
    assert torch.equal(table.weight[[0, 2, 3]], before[[0, 2, 3]]) and not torch.equal(table.weight[1], before[1])


def test_a_gradient_that_no_rank_could_add(either: ModuleType) -> None:
    parameter = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    optimizer = either.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    with pytest.raises(ValueError, match="complex64"):
        parameter.abs().sum().backward()
    assert not optimizer._reducer.outstanding()


def test_alone_a_missing_gradient_stays_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without us: weight decay leaves the parameter alone."""
    import farandole.torch as hvd

    monkeypatch.delenv("HOROVOD_ELASTIC", raising=False)
    hvd.init()
    used, spare = (nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([used, spare], lr=1.0, weight_decay=0.5))
    used.sum().backward()
    optimizer.step()
    assert used.tolist() == [-0.5, -0.5] and spare.tolist() == [1, 1] and spare.grad is None
    hvd.shutdown()


def test_synchronize_then_step(either: ModuleType) -> None:
    model = make_model()
    optimizer = either.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    loss_of(model, 0).backward()
    optimizer.synchronize()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    with optimizer.skip_synchronize():
        optimizer.step()
    optimizer.zero_grad()
    loss_of(model, 1).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="skip_synchronize"):
        optimizer.step()


def test_missing_gradients_count_as_zeros(hvd: ModuleType) -> None:
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([used, unused], lr=1.0))
    used.sum().backward()
    optimizer.step()
    assert used.tolist() == [0, 0] and unused.tolist() == [1, 1] and unused.grad.tolist() == [0, 0]


def test_frozen_parameters_are_left_alone(either: ModuleType) -> None:
    trained, frozen = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = either.DistributedOptimizer(torch.optim.SGD([trained, frozen], lr=1.0, weight_decay=0.5))
    frozen.requires_grad_(False)
    trained.sum().backward()
    optimizer.step()
    assert frozen.tolist() == [1, 1] and frozen.grad is None


def test_gradients_that_are_not_contiguous(hvd: ModuleType) -> None:
    parameter = nn.Parameter(torch.zeros(3, 4, 5, 5).to(memory_format=torch.channels_last))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    weight = torch.arange(300.0).reshape(3, 4, 5, 5)
    (parameter * weight).sum().backward()
    optimizer.step()
    assert torch.equal(parameter, -weight)


@pytest.mark.filterwarnings("error")
def test_closure(either: ModuleType) -> None:
    plain, ours = make_model(), make_model()
    reference = torch.optim.LBFGS(plain.parameters(), max_iter=4)
    optimizer = either.DistributedOptimizer(torch.optim.LBFGS(ours.parameters(), max_iter=4))
    for opt, model in ((reference, plain), (optimizer, ours)):

        def closure(opt: torch.optim.Optimizer = opt, model: nn.Module = model) -> torch.Tensor:
            opt.zero_grad()
            loss = loss_of(model, 0)
            loss.backward()
            return loss

        for _ in range(3):
            assert opt.step(closure) is not None
    for a, b in zip(plain.parameters(), ours.parameters()):
        assert torch.equal(a, b)


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_schedulers_before_and_after(hvd: ModuleType) -> None:
    model = make_model()
    wrapped = torch.optim.SGD(model.parameters(), lr=1.0)
    before = torch.optim.lr_scheduler.StepLR(wrapped, 1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(wrapped)
    after = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    loss_of(model, 0).backward()
    optimizer.step()
    assert not optimizer._reducer.outstanding()
    before.step()
    after.step()
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_state_is_kept_and_saved(hvd: ModuleType) -> None:
    model = make_model()
    wrapped = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of(model, 0).backward()
    wrapped.step()
    optimizer = hvd.DistributedOptimizer(wrapped)
    saved = copy.deepcopy(optimizer.state_dict())
    assert len(saved["state"]) == 4
    loss_of(model, 1).backward()
    optimizer.load_state_dict(saved)
    optimizer.zero_grad()
    loss_of(model, 2).backward()
    optimizer.step()


def test_add_param_group(hvd: ModuleType) -> None:
    first, second = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first], lr=1.0), named_parameters=[("first", first)])
    optimizer.add_param_group({"params": [second], "lr": 2.0})
    (first + second).sum().backward()
    assert optimizer._reducer.still_reduced()
    optimizer.step()
    assert (first.item(), second.item()) == (0.0, -1.0)


def test_a_forgotten_optimizer_takes_its_hooks_along(hvd: ModuleType) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None
    for step in range(3):
        loss_of(model, step).backward()


def test_a_forgotten_optimizer_takes_its_model_along(hvd: ModuleType) -> None:
    """With the first collection: models that are made one after the other do not add up."""
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), groups=1)
    loss_of(model, 0).backward()
    optimizer.step()
    gone = [weakref.ref(parameter) for parameter in model.parameters()]
    optimizer.itself = optimizer  # as schedulers and hooks make circles
    del model, optimizer
    gc.collect()
    assert all(each() is None for each in gone)


@pytest.mark.parametrize("op", ["Average", "Adasum"])
def test_only_optimizers_are_wrapped_and_only_once(either: ModuleType, op: str) -> None:
    model = make_model()
    optimizer = either.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=getattr(either, op))
    with pytest.raises(TypeError, match="already"):
        either.DistributedOptimizer(optimizer)
    with pytest.raises(TypeError, match="got Sequential; the model stays as it is"):
        either.DistributedOptimizer(model, model.named_parameters())
    with pytest.raises(TypeError, match="got generator"):
        either.DistributedOptimizer(model.parameters())


def test_named_parameters_are_checked(either: ModuleType) -> None:
    model = make_model()
    make = lambda: torch.optim.SGD(model.parameters(), lr=0.1)  # noqa: E731
    with pytest.raises(ValueError, match="sequence of tuples"):
        either.DistributedOptimizer(make(), named_parameters=model.parameters())
    with pytest.raises(ValueError, match="duplicates: a"):
        either.DistributedOptimizer(make(), named_parameters=[("a", p) for p in model.parameters()])
    with pytest.raises(ValueError, match="not named"):
        either.DistributedOptimizer(make(), named_parameters=list(model.named_parameters())[:-1])
    optimizer = either.DistributedOptimizer(make())
    assert sorted(optimizer._parameter_names.values()) == [f"noname.0.{i}" for i in range(4)]
    assert optimizer.find_duplicates(["a", "b", "a"]) == {"a"}


def test_arguments_are_checked(hvd: ModuleType) -> None:
    parameter = nn.Parameter(torch.ones(1))
    make = lambda **kw: hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), **kw)  # noqa: E731
    for passes in (0, -1, 1.5):
        with pytest.raises(ValueError, match="positive"):
            make(backward_passes_per_step=passes)
    with pytest.raises(ValueError, match="gradient_predivide_factor"):
        make(gradient_predivide_factor=2.0, op=hvd.Sum)
    with pytest.raises(ValueError, match="Average, Sum or Adasum"):
        make(op=hvd.Max)
    with pytest.raises(ValueError, match="is not registered"):
        make(process_set=hvd.ProcessSet([0]))


@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_with_a_graph_keep_it_until_they_are_reduced(hvd: ModuleType) -> None:
    parameter = nn.Parameter(torch.full((1,), 3.0))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), op=hvd.Sum)
    parameter.pow(3).sum().backward(create_graph=True)
    assert torch.autograd.grad(parameter.grad.sum(), parameter)[0].item() == 18
    optimizer.synchronize()
    assert parameter.grad.item() == 27 and not parameter.grad.requires_grad


@pytest.mark.parametrize("groups", [0, -1, True, 1.5, "a", {}, [1], [[1]], "twice"])
def test_groups_are_checked(hvd: ModuleType, groups: object) -> None:
    parameter = nn.Parameter(torch.ones(1))
    if groups == "twice":
        groups = [[parameter], [parameter]]
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), groups=groups)


def test_num_groups_is_the_old_name(hvd: ModuleType) -> None:
    model = make_model()
    make = lambda **kw: hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **kw)  # noqa: E731
    with pytest.warns(DeprecationWarning, match="groups"):
        assert make(num_groups=2)._groups == 2
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="above 0"):
        make(num_groups=-2)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_group_starts_with_its_last_gradient(hvd: ModuleType, groups: int) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), groups=groups)
    loss_of(model, 0).backward()
    optimizer.step()
    optimizer.zero_grad()
    started = []
    under_way = lambda: [bool(optimizer._handles.get(p, (0, None))[0]) for p in model.parameters()]  # noqa: E731
    model[0].weight.register_hook(lambda _: started.append(under_way()))
    loss_of(model, 0).backward()
    # The second layer comes first: alone in its group, or waiting for the other one.
    assert started == [[False, False, groups == 2, groups == 2]]
    assert optimizer._reducer.still_reduced()
    optimizer.step()


def test_private_attributes_that_scripts_look_up(hvd: ModuleType) -> None:
    first, second, third = parameters = [nn.Parameter(torch.ones(1)) for _ in range(3)]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=0.1), groups=[[first, second]], backward_passes_per_step=2
    )
    assert optimizer._requires_update == set(parameters)
    assert optimizer._allreduce_delay == dict.fromkeys(parameters, 2)
    assert optimizer._handles == {} and optimizer._groups == [[first, second]]
    for _ in range(2):
        (first + third).sum().backward()
    assert set(optimizer._handles) == {first, third} and optimizer._allreduce_delay == {first: 0, second: 2, third: 0}
    assert optimizer._p_to_group == {first: (first, second), second: (first, second)}
    assert optimizer._group_counts == {(first, second): 1}
    optimizer.step()
    assert optimizer._handles == {} and optimizer._group_counts == {(first, second): 0}


@pytest.mark.parametrize("as_dense", [True, False])
@pytest.mark.parametrize("groups", [None, 1])
def test_sparse_gradients(hvd: ModuleType, as_dense: bool, groups: int | None) -> None:
    embedding, other = nn.Embedding(4, 2, sparse=True), nn.Parameter(torch.ones(1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([*embedding.parameters(), other], lr=0.5), sparse_as_dense=as_dense, groups=groups
    )
    for _ in range(3):
        before = embedding.weight.detach().clone()
        optimizer.zero_grad()
        (embedding(torch.tensor([1, 3, 1])).sum() * other).backward()
        optimizer.step()
        gradient = embedding.weight.grad
        assert gradient.is_sparse
        assert torch.equal(before - 0.5 * gradient.to_dense(), embedding.weight)
    assert not optimizer._reducer.outstanding()


def test_adasum_alone_is_an_ordinary_step(hvd: ModuleType) -> None:
    plain, ours = make_model(), make_model()
    reference = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(ours.parameters(), lr=0.1, momentum=0.9), op=hvd.Adasum)
    for step in range(3):
        for opt, model in ((reference, plain), (optimizer, ours)):
            opt.zero_grad()
            loss_of(model, step).backward()
            opt.step()
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), ours.parameters()))
    optimizer.synchronize()
    with pytest.raises(AssertionError, match="not supported"), optimizer.skip_synchronize():
        pass
    with pytest.raises(ValueError, match="positive"):
        optimizer.set_backward_passes_per_step(0)


def test_an_optimizer_outlives_the_job(hvd: ModuleType) -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), groups=2)
    loss_of(model, 0).backward()
    hvd.shutdown()
    assert not optimizer._reducer.outstanding()
    optimizer.zero_grad()
    with pytest.raises(ValueError, match="has not been initialized"):
        loss_of(model, 0).backward()
    hvd.init()
    optimizer.zero_grad()
    loss_of(model, 0).backward()
    optimizer.step()
