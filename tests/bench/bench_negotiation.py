"""Latency of an agreement: a barrier and a tiny allreduce beside a bare gRPC exchange of the same shape."""

from __future__ import annotations

import ranks
import report

ROUNDS = 15
CALLS = 200


def rows(world: int) -> list[report.Row]:
    """One row for the barrier, one for the allreduce."""
    times = ranks.start(world, "negotiation_ranks.py", str(ROUNDS), str(CALLS))
    bare = [s * 1e6 for s in times.pop("bare gRPC")]
    return [
        report.row(f"{name}, {world} ranks", "us", [s * 1e6 for s in seconds], bare_grpc=bare)
        for name, seconds in times.items()
    ]


def main() -> None:
    """Writes build/bench/negotiation.json."""
    report.write("negotiation", rows(2) + rows(4))


if __name__ == "__main__":
    main()
