"""Defects that Horovod has and Farandole has not; `python defects_worker.py NAME` for the check of that name."""

from __future__ import annotations

import sys

import no_compiler
import torch

import farandole.torch as hvd
from farandole.core import handles
from farandole.library import submission
from farandole.torch import memory

ONES = torch.ones(3)


def refused(call: object, kind: type) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no error")


def submit(wire_name: str) -> int:
    """An allreduce of a name that the functions of the package make for members of groups."""
    tensor = torch.ones(3)
    name, place, shape = submission.text(wire_name), tensor.data_ptr(), memory.shape_of(tensor)
    handle = submission.submit(submission.packed(submission.ALLREDUCE, name, place, place, 7, shape, 0, hvd.Sum))
    return handles.track(handle, (tensor,), lambda _: tensor)


def reducescatter_names_the_operation() -> None:
    """Not a difference of factors, when ranks sum and average."""
    op = hvd.Sum if hvd.rank() == 0 else hvd.Average
    text = refused(lambda: hvd.reducescatter(torch.ones(4), op=op), hvd.TensorMismatchError)
    assert "sum on rank 0" in text and "average on rank 1" in text and "factor" not in text, text


def duplicate_leaves_no_part_of_a_group() -> None:
    """A name in use in the middle of a group: none of the others was submitted."""
    if hvd.rank() == 0:
        middle = submit("grouped_allreduce.g_2of3")
        text = refused(lambda: hvd.grouped_allreduce_async([ONES] * 3, name="g"), ValueError)
        assert "g_2of3" in text and "still being processed" in text, text
        others = [submit("grouped_allreduce.g_1of3"), submit("grouped_allreduce.g_3of3")]
    else:
        middle, *others = (submit(f"grouped_allreduce.g_{i}of3") for i in (2, 1, 3))
    for handle in (middle, *others):
        assert hvd.synchronize(handle).tolist() == [hvd.size()] * 3
    assert hvd.grouped_allreduce([ONES] * 3, op=hvd.Sum, name="g")[2].tolist() == [hvd.size()] * 3


def groups_are_known_to_the_coordinator() -> None:
    """Ranks that group differently are told, for all kinds of groups."""
    for name in ("grouped_allreduce", "grouped_allgather", "grouped_reducescatter"):
        function = getattr(hvd, name)
        text = refused(lambda f=function: f([ONES, torch.ones(2, hvd.rank() + 1)], name="x"), hvd.TensorMismatchError)
        assert "x_2of2" in text, text


def unnamed_operations_agree_after_those_of_a_set() -> None:
    """Counters of made-up names are those of the process set."""
    only = hvd.add_process_set([0])
    if only.included():
        for _ in range(5):
            hvd.allreduce(ONES, process_set=only)
            hvd.grouped_allgather([ONES, ONES], process_set=only)
    for _ in range(3):
        assert hvd.allreduce(ONES, op=hvd.Sum).tolist() == [hvd.size()] * 3
        assert hvd.grouped_allgather([ONES])[0].shape == (3 * hvd.size(),)


def unknown_handles() -> None:
    """As Horovod's synchronize, ours has nothing to wait for; poll would have nothing to tell."""
    for handle in (0, 1 << 50):
        assert hvd.synchronize(handle) is None
        assert "not given out" in refused(lambda h=handle: hvd.poll(h), ValueError)


def transfer_of_state_takes_no_step() -> None:
    """Weight decay would change weights."""
    weight = torch.nn.Parameter(torch.full((3,), 2.0))
    optimizer = torch.optim.SGD([weight], lr=0.5, weight_decay=0.5, momentum=0.9)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert weight.tolist() == [2.0] * 3


def main(name: str) -> None:
    hvd.init()
    globals()[name]()
    assert hvd.allreduce(ONES, op=hvd.Sum).tolist() == [hvd.size()] * 3
    print("not here", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    no_compiler.leave_out()
    main(sys.argv[1])
