"""Loops as users write them for one process, with nothing of ours in them but the optimizer: clipping, loss scaling,
several backward passes, several optimizers. Weights end equal bit for bit on all ranks, and near those of a process
that has trained with the batches of all.

`plain_worker.py`: the size is 2, or the factor of the average would round.
"""

from __future__ import annotations

import copy
import os
import warnings
from typing import Any, Callable

import torch
from gradients_worker import DEVICE, batch, model_of
from torch import nn

import farandole.torch as hvd
from farandole.torch.optimizer import _DistributedOptimizer

STEPS = 20
Body = Callable[[nn.Module, torch.optim.Optimizer, Callable[[], torch.Tensor]], None]


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().view(-1).clone() for p in model.parameters()])


def assert_alike(model: nn.Module) -> None:
    """On all ranks, bit for bit."""
    everyone = hvd.allgather(weights(model)[None], name="weights")
    assert all(torch.equal(each, everyone[0]) for each in everyone), (everyone - everyone[0]).abs().max()


def train(body: Body, make: Callable[[], nn.Module] = model_of, **options: Any) -> None:
    """`body` is one step of a script: once with our optimizer and the batches of this rank, once with a plain optimizer
    and those of all, whose loss is their mean."""
    model = make()
    twin = copy.deepcopy(model)
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
    reference = sgd(twin)
    for step in range(STEPS):
        mine = batch(step, hvd.rank(), torch.float32)
        body(model, optimizer, lambda mine=mine: model(mine).square().mean())
        all_of_them = torch.cat([batch(step, rank, torch.float32) for rank in range(hvd.size())])
        body(twin, reference, lambda everything=all_of_them: twin(everything).square().mean())
    assert_alike(model)
    assert torch.allclose(weights(model), weights(twin), atol=1e-5), (weights(model) - weights(twin)).abs().max()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)


def clipped(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
    optimizer.zero_grad()
    loss().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()


def case_clipping() -> None:
    train(clipped)
    train(clipped, groups=2)
    train(clipped, gradient_predivide_factor=2.0)


def case_clipping_with_the_zeroing_of_the_model() -> None:
    def body(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
        model.zero_grad()
        loss().backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-3)
        optimizer.step()

    train(body)


def case_clipping_of_what_was_frozen_before() -> None:
    def make() -> nn.Module:
        model = model_of()
        model[0].requires_grad_(False)
        return model

    def body(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
        clipped(model, optimizer, loss)
        model[0].requires_grad_(True)

    train(body, make)


def case_accumulation_over_passes() -> None:
    def body(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
        optimizer.zero_grad()
        for _ in range(3):
            (loss() / 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()

    train(body)
    train(body, backward_passes_per_step=3)


def case_sums() -> None:
    def body(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
        optimizer.zero_grad()
        # What ranks sum is the whole only if each has its share.
        (loss() / (hvd.size() if isinstance(optimizer, _DistributedOptimizer) else 1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()

    train(body, op=hvd.Sum)


def case_closures() -> None:
    def body(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            value = loss()
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            return value

        optimizer.step(closure)

    train(body)


def case_unused_parameters() -> None:
    def make() -> nn.Module:
        model = model_of()
        model.register_module("spare", nn.Linear(2, 2))
        model.forward = lambda x: nn.Sequential(*list(model)[:5])(x)
        return model

    model = make()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        inputs = batch(step, hvd.rank(), torch.float32)
        loss = model[:5](inputs).square().mean()
        if hvd.rank() == 0 and step % 2:
            loss = loss + model.spare(inputs[:, :2]).square().mean()
        loss.backward()
        optimizer.step()
    assert_alike(model)


def case_a_gradient_that_is_changed_too_early_is_named() -> None:
    model = nn.ModuleDict({"used": nn.Linear(6, 3), "spare": nn.Linear(2, 2)})
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())

    def backward() -> None:
        optimizer.zero_grad()
        model["used"](batch(0, hvd.rank(), torch.float32)).square().mean().backward()

    def replace() -> None:
        model["used"].bias.grad = model["used"].bias.grad * 0.5

    clip = lambda: nn.utils.clip_grad_norm_(model.parameters(), 1e-3)  # noqa: E731
    for change, name in ((clip, "used.weight"), (replace, "used.bias")):
        before = weights(model)
        backward()
        change()
        try:
            optimizer.step()
        except RuntimeError as error:
            assert f"`{name}`" in str(error) and "`spare.weight`, `spare.bias` had no gradient" in str(error), error
            assert "optimizer.synchronize()" in str(error)
        else:
            raise AssertionError("no error")
        assert torch.equal(weights(model), before)
    # As the error says.
    backward()
    optimizer.synchronize()
    clip()
    with optimizer.skip_synchronize():
        optimizer.step()
    assert_alike(model)


def case_loss_scaling_with_an_overflow_on_one_rank() -> str | None:
    if not hasattr(torch.amp, "GradScaler"):
        return "left out"  # torch gained one for CPUs in 2.3
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**10, growth_interval=4)
    scales = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(batch(step, hvd.rank(), torch.float32)).square().mean()
        if step == 7 and hvd.rank() == 1:
            loss = loss * torch.inf
        before = weights(model)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(weights(model), before) == (step == 7), step
        scales.append(scaler.get_scale())
    assert scales[7] == scales[6] / 2 and weights(model).isfinite().all()
    assert_alike(model)
    return None


def case_a_step_left_out() -> None:
    """Gradients that are dropped are those of all ranks, and the next ones are reduced again."""

    def body(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
        for _ in range(2):
            model.zero_grad()
            loss().backward()
        optimizer.step()

    train(body)


def case_adversaries() -> None:
    """A generator and a discriminator, as in DCGAN: its gradients are made in the generator's pass, too."""
    torch.manual_seed(3)
    maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
    judge = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    of_maker = hvd.DistributedOptimizer(torch.optim.Adam(maker.parameters(), 1e-3), maker.named_parameters("maker"))
    of_judge = hvd.DistributedOptimizer(torch.optim.Adam(judge.parameters(), 1e-3), judge.named_parameters("judge"))
    measure = nn.BCEWithLogitsLoss()
    generator = torch.Generator().manual_seed(hvd.rank())
    for step in range(STEPS):
        judge.zero_grad()
        real = batch(step, hvd.rank(), torch.float32)
        measure(judge(real), torch.ones(4, 1)).backward()
        fake = maker(torch.randn(4, 4, generator=generator))
        measure(judge(fake.detach()), torch.zeros(4, 1)).backward()
        nn.utils.clip_grad_norm_(judge.parameters(), 0.1)
        of_judge.step()
        maker.zero_grad()
        measure(judge(fake), torch.ones(4, 1)).backward()
        nn.utils.clip_grad_norm_(maker.parameters(), 0.1)
        of_maker.step()
        assert_alike(maker)
        assert_alike(judge)


def case_several_losses() -> None:
    """One for each half of the model, and then one for all of it."""

    def body(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
        optimizer.zero_grad()
        loss().backward(inputs=list(model[:2].parameters()))
        loss().backward(inputs=list(model[2:].parameters()))
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()

    train(body)

    def overlapping(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
        optimizer.zero_grad()
        (loss() / 2).backward()  # whole, training diverges from some weights, and twins with it
        (loss() / 2).backward(inputs=list(model[2:].parameters()))
        optimizer.step()

    train(overlapping)


def case_sums_do_not_add_to_sums() -> None:
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), op=hvd.Sum)
    model(batch(0, hvd.rank(), torch.float32)).sum().backward()
    try:
        model(batch(0, hvd.rank(), torch.float32)).sum().backward()
    except AssertionError as error:
        assert "optimizer.zero_grad()" in str(error) and "backward_passes_per_step" in str(error), error
    else:
        raise AssertionError("no error")
    optimizer.zero_grad()
    model(batch(0, hvd.rank(), torch.float32)).sum().backward()
    optimizer.step()
    assert_alike(model)


def case_sums_where_the_model_is_zeroed() -> None:
    """There is no sum to add to: a step that is left out, and closures that are called several times."""
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), op=hvd.Sum)
    for _ in range(3):
        model.zero_grad()
        model(batch(0, hvd.rank(), torch.float32)).square().mean().backward()
    optimizer.step()
    assert_alike(model)
    del optimizer
    searched = hvd.DistributedOptimizer(
        torch.optim.LBFGS(model.parameters(), max_iter=4), model.named_parameters(), op=hvd.Sum
    )

    def closure() -> torch.Tensor:
        model.zero_grad()
        value = model(batch(1, hvd.rank(), torch.float32)).square().mean()
        value.backward()
        return value

    for _ in range(2):
        searched.step(closure)
    assert_alike(model)


def case_gradients_that_were_replaced() -> None:
    """Those of another pass are reduced; what was made from reduced ones stays alike on all ranks."""
    for make in ("anew", "from reduced ones"):
        model = model_of()
        parameters = list(model.parameters())
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
        for step in range(4):
            inputs = batch(step, hvd.rank(), torch.float32)
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            gradients = [0.5 * p.grad for p in parameters]
            if make == "anew":
                model.zero_grad()
                gradients = torch.autograd.grad(model(inputs).abs().mean(), parameters)
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient
            optimizer.step()
            assert_alike(model)
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), op=hvd.Sum)
    model(batch(0, hvd.rank(), torch.float32)).square().mean().backward()
    model[2].bias.grad = 0.5 * model[2].bias.grad
    try:
        optimizer.step()
    except RuntimeError as error:
        assert "`2.bias` was replaced" in str(error) and "skip_synchronize" in str(error), error
    else:
        raise AssertionError("no error")


def case_a_rank_that_has_no_data_at_first() -> None:
    """It has joined when the others compare their parameters, and does not compare its own later."""
    model = model_of()
    wrapped = torch.optim.SGD(model.parameters(), lr=0.2)
    optimizer = hvd.DistributedOptimizer(wrapped, model.named_parameters())
    if hvd.rank() == 0:
        for step in range(3):
            optimizer.zero_grad()
            model(batch(step, 0, torch.float32)).square().mean().backward()
            optimizer.step()
    hvd.join()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(3):
        optimizer.zero_grad()
        model(batch(step, hvd.rank(), torch.float32)).square().mean().backward()
        optimizer.step()
    assert_alike(model)


def case_explicit_synchronize_keeps_its_warning() -> None:
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    for explicit in (True, False):
        model(batch(0, hvd.rank(), torch.float32)).square().mean().backward()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            if explicit:
                optimizer.synchronize()
            optimizer.step()
        assert [str(each.message) for each in seen if "skip_synchronize" in str(each.message)] or not explicit
        assert len(seen) == explicit, [str(each.message) for each in seen]
        optimizer.zero_grad()
    assert_alike(model)


def case_the_timing_of_horovod() -> None:
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), synchronize_in_backward=False)
    for step in range(3):
        model(batch(step, hvd.rank(), torch.float32)).square().mean().backward()
        assert optimizer._reducer.outstanding()
        optimizer.step()
        assert not optimizer._reducer.outstanding()
        optimizer.zero_grad()
    assert_alike(model)
    for change in (
        lambda: model[0].weight.grad.share_memory_(),
        lambda: nn.utils.clip_grad_norm_(model[0].weight, 1e-3),
    ):
        model(batch(0, hvd.rank(), torch.float32)).square().mean().backward()
        change()
        try:
            optimizer.step()
        except RuntimeError as error:
            assert "`0.weight` was changed while it was being reduced: it is reduced from backward() to" in str(error)
        else:
            raise AssertionError("no error")
        optimizer.zero_grad()


def case_a_graph_of_gradients_stays() -> None:
    """What was made with create_graph=True can be differentiated until step()."""
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    model(batch(0, hvd.rank(), torch.float32)).square().mean().backward(create_graph=True)
    assert model[0].weight.grad.requires_grad
    (again,) = torch.autograd.grad(model[0].weight.grad.square().sum(), [model[0].bias])
    assert again.any()
    optimizer.step()
    assert_alike(model)


def warnings_of_first_step(model: nn.Module, **options: Any) -> list[str]:
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), **options)
    texts = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model(batch(0, 0, torch.float32)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        texts += [str(each.message) for each in seen]
    return texts


def case_parameters_that_were_never_made_equal() -> None:
    for options in ({}, {"op": hvd.Adasum}):
        assert warnings_of_first_step(model_of(), **options) == []
        model = model_of()
        with torch.no_grad():
            model[2].bias[7] += hvd.rank()
        texts = warnings_of_first_step(model, **options)
        if hvd.rank() == 0:
            (text,) = texts
            assert "`2.bias` is the first that differs" in text and "hvd.broadcast_parameters" in text
        else:
            assert texts == []


def case_tensors_without_names_are_broadcast() -> None:
    model = model_of(hvd.rank())
    hvd.broadcast_parameters(list(model.parameters()), root_rank=1)
    assert torch.equal(weights(model), weights(model_of(1)))


def main() -> None:
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            outcome = case() or "passed"
            os.write(1, f"{outcome} {name}\n".encode())


main()
