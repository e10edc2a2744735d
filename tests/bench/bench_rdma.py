"""Channels between two emulated machines with Soft-RoCE, beside the bare verbs of perftest on the same link, in one run
and in turn: `make bench-rdma`.

The processors are emulated, so a figure says nothing about a network; only those of one run compare, best as ratios.
FARANDOLE_BENCH_QUICK=1 takes few rounds; its figures are for trying.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import image
import report
from curves import size_label
from guests import Guest, Guests

QUICK = bool(os.environ.get("FARANDOLE_BENCH_QUICK"))
ROUNDS = 2 if QUICK else 7
SIZES = [64, 4 << 10, 64 << 10, 1 << 20, 4 << 20]
PORT = 18515
PROGRAM = image.ROOT / "bazel-bin/tests/rdma/channel_speed"
# Media of channel_speed that are ours.
CHANNELS = ("tcp",)
# Of bandwidth and latency: perftest's programs, and where in the line of a size its figure is, and in what unit.
BARE = {"bandwidth": ("ib_write_bw", 3, 1.048576), "latency": ("ib_write_lat", 5, 1.0)}
UNITS = {"bandwidth": "MB/s", "latency": "us"}

# Kind, size, value.
Figure = tuple[str, int, float]


def count(size: int) -> int:
    """Messages of a size in a round: a second of them at most."""
    return max(5, min(200, (8 << 20) // size))


def perftest(server: Guest, client: Guest, kind: str, size: int) -> float:
    """One figure of bare verbs, which write into the memory of the other end."""
    program, column, factor = BARE[kind]
    command = f"{program} -d rxe0 -x 1 -F -p {PORT} -n {count(size)} -s {size}"
    serving = server.start(command)
    server.wait_for_listener(PORT)
    said = client.check(f"{command} {server.address()}")
    serving.wait()
    line = next(words for words in map(str.split, said.splitlines()) if words[:1] == [str(size)])
    return float(line[column]) * factor


def bare(server: Guest, client: Guest) -> Iterator[Figure]:
    """All figures of bare verbs."""
    for kind in BARE:
        for size in SIZES:
            yield kind, size, perftest(server, client, kind, size)


def channel(medium: str, server: Guest, client: Guest) -> Iterator[Figure]:
    """All figures of a channel of ours."""
    sizes = ",".join(f"{size}:{count(size)}" for size in SIZES)
    serving = server.start(f"channel_speed {medium} {server.address()} {sizes}")
    address = serving.wait_for("\n").splitlines()[0]
    said = client.check(f"channel_speed {medium} {client.address()} {sizes} {address}")
    serving.wait()
    for line in said.splitlines():
        size, latency_us, megabytes = line.split()
        yield "latency", int(size), float(latency_us)
        yield "bandwidth", int(size), float(megabytes)


def measure() -> dict[tuple[str, int], dict[str, list[float]]]:
    """Rounds of all media, one after the other: their figures, by kind and size, of each medium."""
    samples: dict[tuple[str, int], dict[str, list[float]]] = {}
    with Guests(2) as guests:
        guests.install(PROGRAM)
        for number in range(ROUNDS):
            for medium in ("bare", *CHANNELS):
                found = bare(*guests) if medium == "bare" else channel(medium, *guests)
                for kind, size, value in found:
                    samples.setdefault((kind, size), {}).setdefault(medium, []).append(value)
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
    return samples


def main() -> None:
    """Writes build/bench/rdma.json."""
    missing = image.why_not()
    if missing:
        sys.exit(f"bench-rdma: {missing}")
    begin = time.monotonic()
    rows = []
    for (kind, size), found in measure().items():
        # Bare verbs in front, until a channel of ours uses verbs.
        first, *others = found
        name = f"{kind}, {size_label(size)}, {first}"
        rows.append(report.row(name, UNITS[kind], found[first], **{other: found[other] for other in others}))
    packages = (image.PACKAGES / "packages").read_text().split()
    emulation = [p for p in packages if p.startswith(("qemu-system-x86=", "linux-image-", "perftest=", "libibverbs1="))]
    name = "rdma-quick" if QUICK else "rdma"
    report.write(name, rows, "make bench-rdma" + " QUICK=1" * QUICK, emulation=emulation)
    print(f"\n{', '.join(emulation)}; {(time.monotonic() - begin) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
