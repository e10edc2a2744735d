"""Lists of ranks for init(), with 4 processes."""

from __future__ import annotations

import os

import torch

import farandole.torch as hvd

RANK = int(os.environ.get("FARANDOLE_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])


def total() -> float:
    return hvd.allreduce(torch.tensor([float(RANK)]), op=hvd.Sum).item()


def begin(*parts: list[int]) -> list[int]:
    """Joins the part that has this process."""
    (own,) = [part for part in parts if RANK in part]
    hvd.init(comm=own)
    assert (hvd.rank(), hvd.size(), hvd.local_rank()) == (own.index(RANK), len(own), own.index(RANK)), own
    assert total() == sum(own)
    return own


def main() -> None:
    begin([0, 2], [3, 1])
    assert os.environ["HOROVOD_RANK"] == str(hvd.rank())
    hvd.shutdown()
    for wrong, text in (
        ([4, RANK], "no rank 4"),
        ([RANK, RANK], "twice"),
        ([RANK ^ 1], f"this process is rank {RANK}"),
    ):
        try:
            hvd.init(comm=wrong)
            raise AssertionError(wrong)
        except ValueError as error:
            assert text in str(error), error
    begin([0], [1, 2, 3])
    hvd.shutdown()
    begin([0, 1, 2, 3])
    hvd.shutdown()
    hvd.init()
    assert (hvd.rank(), hvd.size(), total()) == (RANK, 4, 6.0)
    print("parts", RANK, flush=True)


if __name__ == "__main__":
    main()
