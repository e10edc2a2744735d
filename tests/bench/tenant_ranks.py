"""A rank of bench_agents, until there is the file argv[2]. argv[1] `neighbour`: agrees on one tensor after the other,
each with a name of its own, so that each is negotiated; rank 0 writes when each began, by CLOCK_MONOTONIC, and how long
it took. `announcing`: the same for as many at a time as the controller lets it."""

from __future__ import annotations

import os
import sys
import time

import light as hvd

AT_A_TIME = 2000
PAUSE_S = 0.002


def main() -> None:
    kind, end = sys.argv[1:]
    hvd.init()
    count = 0
    over = False
    while not over:
        begin = time.monotonic()
        many = AT_A_TIME if kind == "announcing" else 0
        handles = [hvd.allreduce_async_(hvd.ones(1), f"{count} {i}", hvd.Sum) for i in range(many)]
        flag = hvd.full((1,), float(os.path.exists(end)))
        over = hvd.allreduce(flag, op=hvd.Max, name=f"step {count}").item() > 0
        took = time.monotonic() - begin
        for handle in handles:
            hvd.synchronize(handle)
        count += 1 + many
        if hvd.rank() == 0 and kind == "neighbour":
            os.write(1, f"step {begin:.6f} {took:.6f}\n".encode())
            time.sleep(PAUSE_S)
    if hvd.rank() == 0 and kind == "announcing":
        os.write(1, f"announced {count}\n".encode())
    hvd.shutdown()


if __name__ == "__main__":
    main()
