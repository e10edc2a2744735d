"""What the ranks of a job on a cluster print, and what is said beside it."""

from __future__ import annotations

import sys
import threading
import time

from farandole.launch.kubernetes.cluster import Cluster, ClusterError

# Between two attempts to read a pod's lines.
AGAIN_S = 1.0
# Last lines may come for so long after the last one that has come.
REST_S = 30.0
# Of so many pods lines are read at a time: each is a connection.
FOLLOWED_MAX = 256


def say(sentence: str) -> None:
    """One line on stderr."""
    print(f"farandole kubernetes: {sentence}", file=sys.stderr, flush=True)


class Output:
    """What the ranks print, line by line, while pods come and go.

    Args:
        follow: what pods will print, too.
    """

    def __init__(self, cluster: Cluster, follow: bool) -> None:
        self._cluster, self._follow = cluster, follow
        self._threads: dict[str, threading.Thread] = {}
        self._over: set[str] = set()
        self._crowded = False  # said
        self._lock = threading.Lock()
        self._last_line = time.monotonic()
        self.failure = ""  # stdout takes no more

    def follow(self, pod: str, over: bool) -> None:
        """Prints what a pod that runs, or is over, prints; each once."""
        if over:
            self._over.add(pod)
        if pod in self._threads:
            return
        if sum(thread.is_alive() for thread in self._threads.values()) >= FOLLOWED_MAX:
            if not self._crowded:
                say(f"{FOLLOWED_MAX} pods are read at a time: the lines of others come later, or from `kubectl logs`")
            self._crowded = True
            return
        thread = threading.Thread(target=self._print, args=(pod,), name=f"log of {pod}", daemon=True)
        self._threads[pod] = thread
        thread.start()

    def forget(self, there: set[str]) -> None:
        """Keeps nothing of pods that have been read and are not among those that the cluster still has."""
        for pod in [p for p, thread in self._threads.items() if p not in there and not thread.is_alive()]:
            del self._threads[pod]
        self._over &= there | set(self._threads)

    def _print(self, pod: str) -> None:
        last, told = "", False
        opened: float | None = None
        while not self.failure:
            # What was there when a pod was over is all that there is.
            all_of_it = pod in self._over or not self._follow
            since = None if opened is None else int(time.monotonic() - opened) + 5
            opened = time.monotonic()
            try:
                seen = last
                for when, line in self._cluster.log(pod, self._follow, since):
                    if when > seen:
                        last = when
                        self._write(line)
                if all_of_it:
                    return
                if last and not told and pod not in self._over:
                    told = True
                    say(f"the lines of pod {pod} broke off, some may be missing: its log is too long, or no answer")
            except ClusterError as error:
                # A pod that is gone, or over, has no more lines; any other answer may be better the next time.
                if error.code == 403:
                    return say(str(error))
                if error.code == 404 or (error.code == 400 and all_of_it):
                    return None
            except OSError as error:
                self.failure = f"cannot write to stdout: {error.strerror}"
            time.sleep(AGAIN_S)

    def _write(self, line: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            self._last_line = time.monotonic()

    def end(self, seconds: float | None) -> None:
        """Waits for the last lines of pods that are over, until none has come for so long; None: without a bound."""
        if seconds is not None:
            # Also those that are gone: each is read to its end once more.
            self._over.update(self._threads)
        for pod, thread in list(self._threads.items()):
            self._last_line = max(self._last_line, time.monotonic())
            while thread.is_alive():
                thread.join(0.2)
                if seconds is not None and time.monotonic() - self._last_line > seconds:
                    say(f"the last lines of pod {pod} have not come within {seconds:g} s")
                    break
