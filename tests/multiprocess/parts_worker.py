"""Lists of ranks for init(), with 4 processes. Arguments: how many of them each host has, in the order of ranks."""

from __future__ import annotations

import os
import sys

import light as hvd

RANK = int(os.environ.get("FARANDOLE_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])

HOSTS = [host for host, count in enumerate(map(int, sys.argv[1:] or ["4"])) for _ in range(count)]
NAMES = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")


def total() -> float:
    return hvd.allreduce(hvd.tensor([float(RANK)]), op=hvd.Sum).item()


def begin(*parts: list[int]) -> list[int]:
    """Joins the part that has this process."""
    (own,) = [part for part in parts if RANK in part]
    hvd.init(comm=own)
    local = [rank for rank in own if HOSTS[rank] == HOSTS[RANK]]
    expected = (own.index(RANK), len(own), local.index(RANK), len(local))
    found = [getattr(hvd, name)() for name in NAMES]
    assert tuple(found[:4]) == expected, (own, found)
    for family in ("HOROVOD", "FARANDOLE"):
        assert [int(os.environ[f"{family}_{name.upper()}"]) for name in NAMES] == found, (own, found)
    assert total() == sum(own)
    return own


def main() -> None:
    begin([0, 2], [3, 1])
    hvd.shutdown()
    begin([1, 0], [2, 3])
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
    begin([0], [1], [2], [3])
    hvd.shutdown()
    begin([0, 1, 2, 3])
    hvd.shutdown()
    hvd.init()
    assert (hvd.rank(), hvd.size(), total()) == (RANK, 4, 6.0)
    print("parts", RANK, flush=True)


if __name__ == "__main__":
    main()
