"""What few scripts do with parameters and gradients: they train as on one process, or are told that they cannot.

`odd_scripts_worker.py`: the size is 2, or the factor of the average would round.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from refusals import refused
from torch import nn

import farandole.torch as hvd
from farandole.torch import memory

AVERAGE = 1.5  # of the factors of both ranks


def factor() -> float:
    return 1.0 + hvd.rank()


def optimizer_of(*parameters: nn.Parameter, **options: Any) -> Any:
    named = [(f"p{i}", parameter) for i, parameter in enumerate(parameters)]
    return hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), named, **options)


def case_a_parameter_that_gets_another_shape() -> None:
    """Before its first gradient, and after some."""
    for before in (0, 1, 3):
        for rows in (500, 4000):
            parameter = nn.Parameter(torch.zeros(4, 1000))
            optimizer = optimizer_of(parameter)
            for _ in range(before):
                parameter.sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            parameter.data = torch.zeros(4, rows)
            for _ in range(3):
                (parameter * factor()).sum().backward()
                assert (parameter.grad == torch.full((4, rows), AVERAGE)).all()
                optimizer.step()
                optimizer.zero_grad()
            del optimizer


class WithScale(hvd.Compression.none):
    """Sends an element more than there are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return torch.cat([tensor.flatten(), tensor.max().view(1)]), tensor.shape

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        assert tensor[-1] == AVERAGE, tensor[-1]
        return tensor[:-1].view(ctx)


class Thinned(hvd.Compression.none):
    """Sends every tenth element."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor.flatten()[::10].clone(), tensor.shape

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.repeat_interleave(10).view(ctx)


class Cut(hvd.Compression.none):
    """Sends the first two elements, from where they lie."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor.view(-1)[:2], tensor.shape

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        whole = torch.zeros(ctx)
        whole.view(-1)[:2] = tensor
        return whole


def case_a_compressor_that_sends_a_part() -> None:
    parameter = nn.Parameter(torch.zeros(4))
    optimizer = optimizer_of(parameter, compression=Cut)
    (parameter * factor()).sum().backward()
    optimizer.step()
    assert parameter.grad.tolist() == [AVERAGE, AVERAGE, 0, 0]


def case_compressors_that_send_other_elements() -> None:
    for compressor in (WithScale, Thinned):
        parameter = nn.Parameter(torch.zeros(100, 100))
        optimizer = optimizer_of(parameter, compression=compressor)
        for _ in range(2):
            optimizer.zero_grad()
            (parameter * factor()).sum().backward()
            assert (parameter.grad == AVERAGE).all()
        del optimizer


def case_gradients_in_memory_of_the_script() -> None:
    """Views of one tensor, which is zeroed by one call."""
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        parameters = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(5))]
        flat = torch.zeros(8)
        for parameter, gradient in zip(parameters, flat.split([3, 5])):
            parameter.grad = gradient
        optimizer = optimizer_of(*parameters, compression=compression)
        for step in range(1, 5):
            flat.zero_()
            sum((each * factor()).sum() for each in parameters).backward()
            optimizer.step()
            assert (flat == AVERAGE).all(), flat
            assert all((each == -AVERAGE * step).all() for each in parameters)
        del optimizer


def case_views_that_are_changed_too_early() -> None:
    parameters = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(5))]
    for parameter, gradient in zip(parameters, torch.zeros(8).split([3, 5])):
        parameter.grad = gradient
    optimizer = optimizer_of(*parameters, synchronize_in_backward=False)
    sum((each * factor()).sum() for each in parameters).backward()
    parameters[0].grad.mul_(10)
    with refused(RuntimeError, "was changed while it was being reduced"):
        optimizer.step()


def case_parts_are_trained_one_after_the_other() -> None:
    """The second part is frozen when the optimizer is made: clipping sees the gradients of all ranks all the same."""
    first, second = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4), requires_grad=False)
    optimizer = optimizer_of(first, second)
    for step in range(4):
        first.requires_grad_(step < 2)
        second.requires_grad_(step >= 2)
        trained = first if step < 2 else second
        optimizer.zero_grad()
        ((first + second) * factor()).sum().backward()
        norm = nn.utils.clip_grad_norm_([trained], 1e-3)
        assert norm == AVERAGE * 2, (step, norm)
        optimizer.step()


def case_parameters_that_torch_exchanges() -> str | None:
    change = getattr(torch.__future__, "set_swap_module_params_on_conversion", None)
    if change is None:
        return "left out"
    model = nn.Linear(4, 4)
    optimizer = optimizer_of(*model.parameters())
    change(True)
    try:
        model.double()
    finally:
        change(False)
    optimizer.zero_grad()
    ((model.weight.sum() + model.bias.sum()) * factor()).backward()
    assert all((each.grad == AVERAGE).all() for each in model.parameters())
    return None


def case_sums_of_which_some_are_dropped() -> None:
    body, head = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = optimizer_of(body, head, op=hvd.Sum)
    (body * head).sum().backward()
    head.grad = None
    with refused(AssertionError, "cannot add to sums"):
        (body.detach() * head).sum().backward()
    optimizer.zero_grad()
    (body * head).sum().backward()
    optimizer.step()
    assert (body.grad == 2).all() and (head.grad == 2).all()


def case_an_optimizer_for_each_parameter_that_steps_in_backward() -> None:
    parameters = [nn.Parameter(torch.ones(3)) for _ in range(3)]
    optimizers = {each: optimizer_of(each, op=hvd.Sum) for each in parameters}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for each in parameters:
        each.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        sum((each * factor()).sum() for each in parameters).backward()
    assert all((each == 1 - 3 * 3).all() and each.grad is None for each in parameters)


def case_another_number_of_passes_in_the_middle_of_a_step() -> None:
    """Nothing is summed twice, whether all gradients are there or not, and the number holds in the next one."""
    for synchronize in (True, False):
        for with_second in (True, False):
            first, second = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
            optimizer = optimizer_of(first, second, op=hvd.Sum, synchronize_in_backward=synchronize)
            ((first + second if with_second else first) * factor()).sum().backward()
            optimizer.set_backward_passes_per_step(2)
            optimizer.step()
            assert (first.grad == 3).all() and (second.grad == 3 * with_second).all(), (first.grad, second.grad)
            optimizer.zero_grad()
            for _ in range(2):
                ((first + second) * factor()).sum().backward()
            optimizer.step()
            assert (first.grad == 6).all() and (second.grad == 6).all(), (first.grad, second.grad)
            del optimizer


def case_memory_stays_while_it_is_reduced() -> None:
    """That of a gradient which is not at its place, as the script keeps the one that is."""
    parameter = nn.Parameter(torch.zeros(1 << 16))
    optimizer = optimizer_of(parameter, synchronize_in_backward=False)
    parameter.sum().backward()
    optimizer.step()
    kept = [parameter.grad]
    optimizer.zero_grad()
    parameter.sum().backward()
    where = parameter.grad.data_ptr()
    parameter.grad.data = parameter.grad.clone()
    others = [torch.empty(1 << 16) for _ in range(20)]
    assert where not in [each.data_ptr() for each in others]
    with refused(RuntimeError, "was changed while it was being reduced"):
        optimizer.step()
    del kept


def case_a_group_whose_gradients_come_on_several_streams() -> None:
    """Each is ready on the stream on which it has come."""
    first, second = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    optimizer = optimizer_of(first, second, groups=[[first, second]])
    stream, seen = [0], []
    for parameter, number in ((first, 11), (second, 22)):
        parameter.register_hook(lambda gradient, number=number: stream.__setitem__(0, number))
    grouped_allreduce, place_of = memory.collectives.grouped_allreduce, memory.place_of

    def spied(*arguments: Any, places: Any, **more: Any) -> Any:
        seen.append([place.stream for place in places])
        memory.place_of = place_of  # the tensors are the host's
        return grouped_allreduce(*arguments, **more)

    memory.place_of = lambda tensor: SimpleNamespace(stream=stream[0])
    memory.collectives.grouped_allreduce = spied
    try:
        ((first.sum() + second.sum()) * factor()).backward()
    finally:
        memory.place_of = place_of
        del memory.collectives.grouped_allreduce
    assert sorted(seen[0]) == [11, 22], seen
    assert (first.grad == AVERAGE).all() and (second.grad == AVERAGE).all()
    del optimizer


if __name__ == "__main__":
    hvd.init()
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            os.write(1, f"{case() or 'passed'} {name}\n".encode())
    hvd.shutdown()
