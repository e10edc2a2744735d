"""A metrics page with every metric of docs/metrics.md, also those of GPUs, of which this machine may have none."""

from __future__ import annotations

import http.server
import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import processes

LABELS = {
    "training_job": ["on-gpus"],
    "job_namespace": ["default"],
    "rank": ["0", "1"],
    "phase": ["waited", "packed", "nccl", "unpacked"],
    "state": ["running"],
    "version": ["0"],
}


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of each metric."""
    found = {}
    page = (processes.ROOT / "docs" / "metrics.md").read_text()
    for names, kind, labels in re.findall(r"^\| (`farandole_.*?`) \| (gauge|counter) \| ([\w, ]*) ?\|", page, re.M):
        for name in re.findall(r"`(\w+)`", names):
            found[name] = kind, tuple(filter(None, labels.strip().split(", ")))
    return found


def text(scrapes: int) -> str:
    """The page of that scrape: counters grow from each to the next, and every gauge is so high that the expressions
    which compare it are true."""
    lines = []
    for name, (kind, labels) in documented().items():
        lines.append(f"# TYPE {name} {kind}")
        for values in itertools.product(*(LABELS[label] for label in labels)):
            pairs = ",".join(f'{label}="{value}"' for label, value in zip(labels, values))
            value = scrapes * (1 + len(pairs)) if kind == "counter" else 1 if name.endswith("_diverged") else 1000
            lines.append(f"{name}{{{pairs}}} {value}")
    return "\n".join(lines) + "\n"


@contextmanager
def served() -> Iterator[str]:
    """Yields its HOST:PORT."""
    scrapes = itertools.count(1)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text(next(scrapes)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
