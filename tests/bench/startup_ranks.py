"""One rank of bench_startup. argv: whose init is timed, farandole or gloo."""

import time

first_line = time.monotonic()

import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

import ranks  # noqa: E402


def main() -> None:
    """Leaves the times of this rank (CLOCK_MONOTONIC, one host) in a file of its own."""
    if sys.argv[1] == "farandole":
        import farandole.torch as hvd

        rank = int(os.environ["FARANDOLE_RANK"])
        begin = time.monotonic()
        hvd.init()
        end = time.monotonic()
    else:
        import torch.distributed  # noqa: F401

        rank = int(os.environ["RANK"])
        begin = time.monotonic()
        ranks.init_gloo(rank, int(os.environ["WORLD_SIZE"]))
        end = time.monotonic()
    times = {"first_line": first_line, "init_begin": begin, "init_end": end}
    ranks.scratch(f"rank{rank}.json").write_text(json.dumps(times))


if __name__ == "__main__":
    main()
