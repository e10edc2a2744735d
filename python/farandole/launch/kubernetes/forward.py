"""A way from this machine to a job's controller, through the cluster's API server, as `kubectl port-forward` has it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from farandole.launch.kubernetes.cluster import Cluster, ClusterError

CONTROLLER_PORT = 7000
BLOCK_BYTES = 64 << 10
# Connections at a time; the two of a page and the one of a question need three.
CONNECTIONS_MAX = 16
AGAIN_S = 0.1


class Forward:
    """Listens on 127.0.0.1, or takes what comes to `listener`, while it is entered. Each connection gets one of its own
    from `connect`.

    Attributes:
        address: HOST:PORT.
        failure: why the last connection did not get through; "": none has failed.
    """

    def __init__(self, connect: Callable[[], Any], listener: socket.socket | None = None) -> None:
        self._connect = connect
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self.address = "127.0.0.1:" + str(self._listener.getsockname()[1])
        self.failure = ""
        self._over = False

    def __enter__(self) -> Forward:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        # Wakes who waits in accept(), which close() alone would not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                if self._over:
                    return
                # Out of descriptors, for one.
                time.sleep(AGAIN_S)
                continue
            if self._places.acquire(blocking=False):
                threading.Thread(target=self._pass_on, args=(here,), daemon=True).start()
            else:
                here.close()

    def _pass_on(self, here: socket.socket) -> None:
        try:
            with here, closing(self._connect()) as there:
                self.failure = ""
                back = threading.Thread(target=_copy, args=(there, here), daemon=True)
                back.start()
                _copy(here, there)
                back.join()
        except (ClusterError, OSError) as error:
            self.failure = str(error)
        finally:
            self._places.release()


def _copy(source: Any, target: Any) -> None:
    """Until one of them ends; then both ends learn of it."""
    try:
        while block := source.recv(BLOCK_BYTES):
            target.sendall(block)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue


def to_controller(cluster: Cluster, job: str) -> Forward:
    """The way to the controller of this job of `farandole kubernetes run`, wherever its pod is at the time."""

    def connect() -> Any:
        running = [pod for pod in cluster.pods(job, "controller") if pod.status.phase == "Running"]
        if not running:
            raise ClusterError(f"no pod of the controller of job {job} runs")
        return cluster.connect(running[-1].metadata.name, CONTROLLER_PORT)

    return Forward(connect)
