"""Join, process sets and groups on all ranks. Every value is small and whole, so sums are exact."""

from __future__ import annotations

import time

import torch

import farandole.torch as hvd


def check_groups() -> None:
    rank, size = hvd.rank(), hvd.size()
    total = sum(range(size))
    for repetition in range(12):
        tensors = [torch.full((3,), float(rank)), torch.full((2, 2), rank + repetition, dtype=torch.int64)]
        first, second = hvd.grouped_allreduce(tensors, op=hvd.Sum, name="pair")
        assert first.tolist() == [total] * 3
        assert second.flatten().tolist() == [total + repetition * size] * 4


def check_sets() -> None:
    rank, size = hvd.rank(), hvd.size()
    even = hvd.add_process_set(range(0, size, 2))
    odd = hvd.add_process_set(list(range(1, size, 2)))
    assert even.process_set_id != odd.process_set_id
    mine, other = (even, odd) if rank % 2 == 0 else (odd, even)
    assert mine.included() and not other.included()
    assert (mine.size(), mine.rank()) == (len(mine.ranks), rank // 2)
    try:
        hvd.allreduce(torch.ones(1), process_set=other)
        raise AssertionError("a rank that is no member took part")
    except ValueError as error:
        assert "not a member" in str(error), error
    for step in range(12):
        # Sets that share no worker go at their own pace.
        for _ in range(3 if mine is even else 1):
            result = hvd.allreduce(torch.full((4,), float(rank)), op=hvd.Sum, name="set", process_set=mine)
            assert result.tolist() == [float(sum(mine.ranks))] * 4
        result = hvd.allreduce(torch.full((2,), float(step)), name="all")
        assert result.tolist() == [step, step]
    gathered = hvd.allgather(torch.tensor([rank]), process_set=mine)
    assert gathered.tolist() == mine.ranks
    root = mine.ranks[-1]
    assert hvd.broadcast(torch.tensor([rank]), root, process_set=mine).tolist() == [root]
    hvd.barrier(process_set=mine)
    assert hvd.remove_process_set(odd) and odd.process_set_id is None
    try:
        hvd.add_process_set(range(0, size, 2))
        raise AssertionError("two sets of the same ranks")
    except ValueError as error:
        assert "exactly these ranks" in str(error), error
    for _ in range(5):
        again = hvd.add_process_set(range(1, size, 2))
        assert again.process_set_id != even.process_set_id
        if again.included():
            result = hvd.allreduce(torch.full((3,), 1.0), op=hvd.Sum, name="again", process_set=again)
            assert result.tolist() == [float(len(again.ranks))] * 3
        assert hvd.remove_process_set(again)
    assert hvd.remove_process_set(even)


def check_mismatch() -> None:
    ranks = [0] if hvd.rank() == 0 else [0, 1]
    try:
        hvd.add_process_set(ranks)
        raise AssertionError("ranks disagreed about a set")
    except hvd.TensorMismatchError as error:
        assert isinstance(error, hvd.HorovodInternalError)
        assert not isinstance(error, hvd.PeerLostError)
        assert "rank" in str(error), error


def check_join() -> None:
    rank, size = hvd.rank(), hvd.size()
    for epoch in range(2):
        # Uneven data: rank r has 12 + r batches. Replay may be on when the first one runs out.
        for step in range(12 + rank):
            result = hvd.allreduce(torch.ones(5), op=hvd.Sum, name="gradient")
            there = size if step < 12 else size - (step - 11)
            assert result.tolist() == [float(there)] * 5, (epoch, step, result)
        assert hvd.join() == size - 1
        # Names that were made up by ranks with different counts agree again.
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size


def check_join_refuses() -> None:
    if hvd.rank() == 0:
        hvd.join()
        return
    try:
        hvd.allgather(torch.ones(1), name="g")
        raise AssertionError("allgather with a rank that has joined")
    except hvd.HorovodInternalError as error:
        assert "join" in str(error).lower(), error
    hvd.join()


def check_join_beside_what_was_submitted() -> None:
    """It is there on all ranks, so that it needs no zeros."""
    rank, size = hvd.rank(), hvd.size()
    if rank > 0:
        time.sleep(0.1)
    handle = hvd.allgather_async(torch.full((rank + 1,), rank), name="rows")
    hvd.join()
    assert hvd.synchronize(handle).tolist() == [r for r in range(size) for _ in range(r + 1)]


def check_join_of_a_rank_that_is_ahead() -> None:
    """It has begun a replayed batch which the others come to so late that it is given up, and negotiated again."""
    rank, size = hvd.rank(), hvd.size()
    for step in range(41):
        handles = []
        for i in range(12):
            if step == 40 and rank > 0 and i == 9:
                time.sleep(1.5)
            handles.append(hvd.allreduce_async(torch.full((4,), rank + 1.0), name=f"ahead {i}", op=hvd.Sum))
        if step == 40 and rank == 0:
            hvd.join()
        for handle in handles:
            assert hvd.synchronize(handle).tolist() == [size * (size + 1) / 2] * 4, step
    if rank > 0:
        hvd.join()


def main() -> None:
    hvd.init()
    joins = [check_join, check_join_refuses, check_join_beside_what_was_submitted, check_join_of_a_rank_that_is_ahead]
    checks = [check_groups, check_sets, check_mismatch, *joins]
    for check in checks:
        check()
        hvd.barrier()
    print(f"checked {len(checks)} rank {hvd.rank()} of {hvd.size()}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
