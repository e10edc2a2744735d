"""What a hook in C takes over from Python, and what it leaves there."""

from __future__ import annotations

import gc
import weakref

import torch
from gradients_worker import Pair, plain_loss, run
from torch import nn

import farandole.torch as hvd
from farandole.torch.gradients.reducer import GradientReducer
from farandole.torch.gradients.slot import Slot

asked: list[str] = []


def count_asked() -> None:
    """For which gradients Python is asked."""
    start = GradientReducer._start

    def counted(self: GradientReducer, slot: Slot) -> None:
        asked.append(slot.name)
        start(self, slot)

    GradientReducer._start = counted


def model_of() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3))


def case_python_is_asked_for_the_first_gradient_of_a_step() -> None:
    pair = Pair(model_of(), prefix="alike.")
    for step in range(6):
        asked.clear()
        pair.step(set_to_none=step % 3 != 2)
        # On a device results get their places with the second step.
        assert len(asked) in ([6], [1, 6], [1])[min(step, 2)], (step, asked)


def case_so_it_is_with_several_passes() -> None:
    pair = Pair(model_of(), prefix="passes.", backward_passes_per_step=2)
    for step in range(4):
        asked.clear()
        pair.optimizer.zero_grad()
        plain_loss(pair.model, torch.ones(4, 6)).backward()
        assert not asked
        plain_loss(pair.model, torch.ones(4, 6)).backward()
        pair.optimizer.step()
        assert len(asked) in ([6], [1, 6], [1])[min(step, 2)], (step, asked)


def case_what_is_kept_is_pythons() -> None:
    pair = Pair(model_of(), prefix="kept.")
    pair.step()
    pair.step()
    kept = pair.model[1].weight.grad
    value = kept.clone()
    asked.clear()
    pair.step()
    has_place = pair.optimizer._reducer.slots[2].place is not None
    assert ("kept.1.weight" in asked) == has_place, asked
    assert torch.equal(kept, value) and len(asked) <= 2, asked


def case_a_view_is_pythons() -> None:
    pair = Pair(model_of(), prefix="view.")
    for _ in range(3):
        pair.step()
    # Of memory that the script has chosen: the result is there, too.
    flat = torch.zeros(64)
    pair.zero_grad()
    pair.model[1].weight.grad = flat.view(8, 8)
    pair.twin[1].weight.grad = torch.zeros(8, 8)
    asked.clear()
    pair.backward()
    pair.synchronize()
    assert "view.1.weight" in asked and len(asked) <= 2, asked
    assert pair.model[1].weight.grad.data_ptr() == flat.data_ptr()
    assert torch.equal(flat.view(8, 8), pair.twin[1].weight.grad) and flat.any()
    pair.apply()


def case_a_name_that_is_taken_is_said_and_comes_again() -> None:
    pair = Pair(model_of(), prefix="taken.")
    for _ in range(3):
        pair.step()
    name = "taken.1.weight"
    ours = hvd.allreduce_async(torch.ones(8, 8), name=name) if hvd.rank() == 0 else None
    pair.zero_grad()
    if ours is not None:
        try:
            pair.backward()
        except ValueError as error:
            assert name in str(error), error
        else:
            raise AssertionError("the name was taken")
    hvd.barrier()


def case_nothing_is_left_of_an_optimizer() -> None:
    gc.collect()
    gc.disable()
    model = model_of()
    pair = Pair(model, prefix="gone.")
    for _ in range(3):
        pair.step()
    slots = [weakref.ref(pair.optimizer._reducer)]
    hooks = [weakref.ref(parameter) for parameter in model.parameters()]
    del pair
    assert slots[0]() is None
    del model
    gc.enable()
    assert not any(each() for each in hooks)
    gc.collect()


def case_compiled_autograd_calls_hooks_as_well() -> str:
    try:
        from torch._dynamo.compiled_autograd import _enable as enable
    except ImportError:
        return "left out"
    pair = Pair(model_of(), prefix="compiled.")
    for _ in range(3):
        pair.zero_grad()
        with enable(torch.compile(backend="eager")):
            pair.backward()
        pair.synchronize()
        pair.apply()
    return "passed"


if __name__ == "__main__":
    count_asked()
    run(globals())
