"""Gradients in shared memory: what a script sees of them is what it would see without, whatever it does to its model.

Each case trains a model beside a twin, which every rank feeds with the batches of all ranks; gradients and weights are
equal bit for bit (see `same`). `gradients_worker.py`: the size is 2 or 4, or the factor of the average would round.
"""

from __future__ import annotations

import copy
import gc
import io
import os
import time
from typing import Any, Callable

import torch
import torch.utils.checkpoint
from torch import nn

import farandole.torch as hvd
from farandole.core import handles
from farandole.library import abi
from farandole.torch.gradients import device_memory

Loss = Callable[[nn.Module, torch.Tensor], torch.Tensor]
DEVICE = torch.empty(0).device


def by_nccl() -> bool:
    """Whether NCCL reduces what lies on the default device."""
    return DEVICE.type == "cuda" and os.environ.get("FARANDOLE_COMMUNICATOR") != "staged"


def same(ours: torch.Tensor, theirs: torch.Tensor, difference: float = 1e-6) -> bool:
    """Bit for bit where sums are made in the order of the ranks. NCCL begins each part of a tensor at another rank,
    which rounds in another way from three ranks on: then they may have this `difference`."""
    if hvd.size() > 2 and by_nccl():
        return torch.allclose(ours, theirs, rtol=1e-4, atol=difference)
    return torch.equal(ours, theirs)


def drain() -> None:
    """Waits until nothing is kept for a device that is behind."""
    handles.settle(10)
    deadline = time.monotonic() + 10
    while handles._abandoned and time.monotonic() < deadline:
        time.sleep(0.001)
        handles.release_abandoned()
    assert not handles._abandoned and not handles._enqueued, len(handles._abandoned)


def batch(step: int, rank: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(1000 * step + rank)).to(dtype)


def model_of(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 300), nn.Tanh(), nn.Linear(300, 3))


def plain_loss(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return model(inputs).square().mean()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


class Pair:
    """A model with our optimizer, and its twin."""

    def __init__(self, model: nn.Module, loss: Loss = plain_loss, prefix: str = "", **options: Any) -> None:
        self.model, self.twin, self.loss = model, copy.deepcopy(model), loss
        names = [(prefix + name, parameter) for name, parameter in model.named_parameters()]
        self.optimizer = hvd.DistributedOptimizer(sgd(model), names, **options)
        self.reference = sgd(self.twin)
        self.step_number = 0

    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    def backward(self, **options: Any) -> None:
        """Both, with the batches of one step."""
        self.step_number += 1
        self.loss(self.model, batch(self.step_number, hvd.rank(), self.dtype())).backward(**options)
        before = [p.grad for p in self.twin.parameters()]
        sums: list[torch.Tensor | None] = [None for _ in before]
        for rank in range(hvd.size()):
            for p in self.twin.parameters():
                p.grad = None
            self.loss(self.twin, batch(self.step_number, rank, self.dtype())).backward()
            for i, p in enumerate(self.twin.parameters()):
                if p.grad is not None:
                    sums[i] = p.grad if sums[i] is None else sums[i] + p.grad
        for p, old, total in zip(self.twin.parameters(), before, sums):
            new = None if total is None else total / hvd.size()
            p.grad = new if old is None else old if new is None else old + new

    def synchronize(self) -> None:
        self.optimizer.synchronize()
        for ours, theirs in zip(self.model.parameters(), self.twin.parameters()):
            if theirs.grad is None:
                assert ours.grad is None or not ours.grad.any()
            else:
                assert same(ours.grad, theirs.grad), (ours.grad - theirs.grad).abs().max()

    def apply(self) -> None:
        with self.optimizer.skip_synchronize():
            self.optimizer.step()
        self.reference.step()
        for ours, theirs in zip(self.model.parameters(), self.twin.parameters()):
            assert same(ours, theirs), (ours - theirs).abs().max()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none=set_to_none)
        self.reference.zero_grad(set_to_none=set_to_none)

    def step(self, set_to_none: bool = True) -> None:
        self.zero_grad(set_to_none)
        self.backward()
        self.synchronize()
        self.apply()

    def shared(self) -> list[bool]:
        """For each parameter, whether its gradient lies in shared memory. Of one on a device, whether it may have a
        place, which it takes in the second step; device_places_worker.py looks at those."""
        slots = self.optimizer._reducer.slots
        if any(device_memory.fits(s.parameter) for s in slots):
            return [device_memory.fits(s.parameter) for s in slots]
        return [s.place is not None and s.place.holds(s.parameter.grad) for s in slots]


def case_set_to_none_or_not() -> None:
    pair = Pair(model_of())
    for step in range(8):
        pair.step(set_to_none=step % 3 != 1)
        assert all(pair.shared())


def case_accumulation() -> None:
    pair = Pair(model_of(), backward_passes_per_step=2)
    for step in range(4):
        pair.zero_grad(set_to_none=step % 2 == 0)
        # Sums of floats that two ranks add up in another order than one differ, those of whole numbers do not.
        for turn in range(2):
            pair.optimizer.param_groups[0]["lr"] = pair.reference.param_groups[0]["lr"] = 0.05
            inputs = [batch(10 * step + turn, rank, torch.float32) for rank in range(hvd.size())]
            whole(pair.model, inputs[hvd.rank()]).backward()
            for each in inputs:
                whole(pair.twin, each).backward()
        for p in pair.twin.parameters():
            p.grad /= hvd.size()
        pair.synchronize()
        pair.apply()
        assert all(pair.shared())


def whole(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """A loss whose gradients are whole numbers."""
    return sum((p * ((inputs.sum() * 10).round() + i)).sum() for i, p in enumerate(model.parameters()))


def case_clipping() -> None:
    pair = Pair(model_of())
    for _ in range(4):
        pair.zero_grad()
        pair.backward()
        pair.synchronize()
        for model in (pair.model, pair.twin):
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        pair.apply()
        assert all(pair.shared())


class Odd(nn.Module):
    """One layer used twice, one never."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.twice, self.never, self.last = nn.Linear(6, 6), nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.last(self.twice(self.twice(inputs).tanh()))


def case_unused_and_used_twice() -> None:
    pair = Pair(Odd())
    for p in pair.twin.never.parameters():
        p.grad = torch.zeros_like(p)
    for _ in range(4):
        pair.zero_grad()
        pair.backward()
        for p in pair.twin.never.parameters():
            p.grad = torch.zeros_like(p)
        pair.synchronize()
        pair.apply()
        assert all(pair.shared())


def case_frozen_and_thawed() -> None:
    model = model_of()
    model[0].weight.requires_grad_(False)
    pair = Pair(model)
    pair.step()
    model[0].weight.requires_grad_(True)
    pair.twin[0].weight.requires_grad_(True)
    for _ in range(3):
        pair.step()
    assert len(pair.shared()) == 6 and all(pair.shared())
    for each in (pair.model, pair.twin):
        each[2].bias.requires_grad_(False)
    for _ in range(2):
        pair.zero_grad()
        pair.backward()
        pair.synchronize()
        pair.apply()


def case_dtype_changes() -> None:
    pair = Pair(model_of())
    for dtype in (torch.float64, torch.float32, torch.float64):
        for model in (pair.model, pair.twin):
            model.to(dtype)
        for optimizer in (pair.optimizer, pair.reference):
            optimizer.state.clear()
        for _ in range(3):
            pair.step()
        assert pair.model[0].weight.grad.dtype is dtype and all(pair.shared())


def case_graph_of_the_gradient() -> None:
    pair = Pair(model_of())
    for _ in range(3):
        pair.zero_grad()
        pair.backward(create_graph=True)
        norm = sum(p.grad.square().sum() for p in pair.model.parameters())
        assert norm.requires_grad and torch.autograd.grad(norm, pair.model[0].weight)[0].abs().sum() > 0
        pair.synchronize()
        pair.apply()
    pair.step()
    assert all(pair.shared())


def case_checkpointing() -> None:
    for reentrant in (True, False):

        def loss(model: nn.Module, inputs: torch.Tensor, reentrant: bool = reentrant) -> torch.Tensor:
            hidden = model[1](model[0](inputs.requires_grad_()))
            hidden = torch.utils.checkpoint.checkpoint(model[2:4], hidden, use_reentrant=reentrant)
            return model[4](hidden).square().mean()

        pair = Pair(model_of(), loss)
        for _ in range(3):
            pair.step()
        assert all(pair.shared())


def case_scaler() -> str | None:
    if not hasattr(torch.amp, "GradScaler"):
        return "left out"  # torch gained one for CPUs in 2.3
    pair = Pair(model_of())
    scalers = [torch.amp.GradScaler(DEVICE.type, init_scale=1024.0) for _ in range(2)]
    for step in range(4):
        pair.zero_grad()
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
            ours = plain_loss(pair.model, batch(step, hvd.rank(), torch.float32))
        scalers[0].scale(ours).backward()
        sums = None
        for rank in range(hvd.size()):
            pair.twin.zero_grad()
            with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
                theirs = plain_loss(pair.twin, batch(step, rank, torch.float32))
            scalers[1].scale(theirs).backward()
            grads = [p.grad for p in pair.twin.parameters()]
            sums = grads if sums is None else [a + b for a, b in zip(sums, grads)]
        for p, total in zip(pair.twin.parameters(), sums):
            p.grad = total / hvd.size()
        pair.synchronize()
        assert all(pair.shared())
        for scaler, optimizer in zip(scalers, (pair.optimizer, pair.reference)):
            scaler.unscale_(optimizer)
        with pair.optimizer.skip_synchronize():
            scalers[0].step(pair.optimizer)
        scalers[1].step(pair.reference)
        for scaler in scalers:
            scaler.update()
        for a, b in zip(pair.model.parameters(), pair.twin.parameters()):
            # Weights that differ by little may round to other ones of bfloat16.
            assert same(a, b, 1e-3), (a - b).abs().max()
    return None


def case_saved_and_copied() -> None:
    pair = Pair(model_of())
    pair.step()
    gradient = pair.model[0].bias.grad
    file = io.BytesIO()
    torch.save(gradient, file)
    assert len(file.getvalue()) < 4096, "the gradient alone"
    file.seek(0)
    assert torch.equal(torch.load(file), gradient)
    copied, before = copy.deepcopy(gradient), gradient.clone()
    pair.step()
    assert torch.equal(copied, before) and torch.equal(gradient, before)
    assert not torch.equal(pair.model[0].bias.grad, before)


def case_kept_gradients_stay() -> None:
    """On one rank only: the others give way. A view keeps one, and a storage in which no tensor lies any more."""
    ways: tuple[tuple[Callable[[Any], Any], Callable[[Any], torch.Tensor]], ...] = (
        (lambda gradient: gradient[3:5], torch.Tensor.clone),
        (torch.Tensor.untyped_storage, lambda storage: torch.empty(0).set_(storage).clone()),
    )
    for keep, read in ways:
        pair = Pair(model_of())
        kept: list[tuple[Any, torch.Tensor]] = []
        for step in range(6):
            pair.step()
            if hvd.rank() == step % 2:
                what = keep(pair.model[2].weight.grad)
                kept.append((what, read(what)))
                del what
        assert all(torch.equal(read(a), b) for a, b in kept)
        kept.clear()
        pair.step()
        pair.step()
        assert all(pair.shared())


def case_gradients_that_were_moved() -> None:
    """Out of their places, by torch, with what lies in the same storage."""
    pair = Pair(model_of())
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    for _ in range(4):
        pair.step()
        gradient = pair.model[2].weight.grad
        assert gradient.share_memory_() is gradient
        kept.append((gradient, gradient.clone()))
    assert all(torch.equal(a, b) for a, b in kept)
    kept.clear()
    pair.step()
    assert all(pair.shared())


def case_two_optimizers_and_a_new_group() -> None:
    one, two = Pair(model_of(1)), Pair(model_of(2))
    for _ in range(3):
        one.step()
        two.step()
    extra = [nn.Linear(3, 3) for _ in range(2)]
    extra[1].load_state_dict(extra[0].state_dict())
    hvd.broadcast_parameters(extra[0].state_dict(), 0)
    hvd.broadcast_parameters(extra[1].state_dict(), 0)
    for model, optimizer, layer in zip((one.model, one.twin), (one.optimizer, one.reference), extra):
        model.append(layer)
        optimizer.add_param_group({"params": list(layer.parameters())})
    for _ in range(3):
        one.step()
        two.step()
    assert len(one.shared()) == 8 and all(one.shared()) and all(two.shared())


def case_other_layouts_stay_outside() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Unflatten(1, (3, 2, 1)), nn.Conv2d(3, 4, 2, padding=1), nn.Flatten(), nn.LazyLinear(2))
    model(batch(0, 0, torch.float32))
    model = model.to(memory_format=torch.channels_last)
    pair = Pair(model)
    for _ in range(3):
        pair.step()
    assert pair.shared() == [False, True, True, True]


def case_refused_memory() -> None:
    library = abi.load()
    address = abi.c_void_p()
    code = library.memory_allocate(0, 1 << 50, address)
    assert code == abi.UNAVAILABLE and "more than" in library.error_text(), library.error_text()
    pair = Pair(model_of())
    pair.step()
    assert all(pair.shared())


def case_dropped_while_reduced() -> None:
    """Rank 0 drops an optimizer whose allreduces wait for rank 1, and makes another one of the same size."""
    first = Pair(model_of(1), prefix="first.", synchronize_in_backward=False)
    drain()
    if hvd.rank() == 0:
        plain_loss(first.model, batch(0, 0, torch.float32)).backward()
        first.model.zero_grad()
        del first
        gc.collect()
        assert len(handles._abandoned) == 6
        second = Pair(model_of(2), prefix="second.", synchronize_in_backward=False)
        second.backward()
        hvd.barrier()
    else:
        # The barrier is behind the other's gradients.
        second = Pair(model_of(2), prefix="second.", synchronize_in_backward=False)
        second.backward()
        hvd.barrier()
        plain_loss(first.model, batch(0, 1, torch.float32)).backward()
        first.optimizer.synchronize()
    second.synchronize()
    second.apply()
    second.step()
    Pair(model_of(3)).step()
    assert all(second.shared())
    drain()


def case_gradients_outlive_the_job() -> None:
    pair = Pair(model_of())
    pair.step()
    gradient = pair.model[2].weight.grad
    value = gradient.clone()
    del pair
    hvd.shutdown()
    assert torch.equal(gradient, value)
    hvd.init()
    again = Pair(model_of())
    again.step()
    assert all(again.shared()) and torch.equal(gradient, value)


def run(names: dict[str, Any]) -> None:
    """The cases among these, in their order."""
    torch.set_num_threads(1)
    hvd.init()
    assert hvd.size() > 1
    for name, case in list(names.items()):
        if name.startswith("case_"):
            outcome = case() or "passed"
            os.write(1, f"{outcome} {name}\n".encode())
    hvd.shutdown()


if __name__ == "__main__":
    run(globals())
