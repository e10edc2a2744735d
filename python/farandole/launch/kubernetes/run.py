"""A job on a cluster, watched until it ends."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from farandole.launch.kubernetes.cluster import Cluster, ClusterError, End, ended, index_of, why_waits
from farandole.launch.kubernetes.manifests import ELSEWHERE, RETRIED, JobSpec
from farandole.launch.kubernetes.output import REST_S, Output, say

# Between two looks at the pods, while they start and when they run.
START_LOOK_S, LOOK_S = 0.5, 2.0
# Without an answer of the cluster for so long nothing more is known of a job.
ABSENT_S = 300.0
# A pod of an elastic job that failed earlier than so long before the first success was made good by the others.
LAST_S = 60.0


class PodEnd(NamedTuple):
    """How the script of which pod ended."""

    pod: str
    end: End

    def __str__(self) -> str:
        return f"pod {self.pod} ended with code {self.end.code}" + (f": {self.end.why}" if self.end.why else "")


class Ends:
    """Of the pods of a job, that may be many and may be gone before it has ended, those that its exit code needs.

    Attributes:
        fault: who is at fault if the job has failed: of the scripts' own codes the first, then of ranks that were
            killed; who ends because of others says so by its code.
        failure: the last one with a code of its own.
        success: the first one.
    """

    def __init__(self) -> None:
        self.fault: PodEnd | None = None
        self.failure: PodEnd | None = None
        self.success: PodEnd | None = None

    def add(self, pod: str, end: End) -> None:
        """The same one may be added again and again."""
        new = PodEnd(pod, end)
        if not end.code:
            self.success = min(self.success or new, new, key=lambda one: one.end.when)
            return
        self.fault = min(self.fault or new, new, key=_order)
        if end.code not in RETRIED:
            self.failure = max(self.failure or new, new, key=lambda one: one.end.when)

    def lost_at_the_end(self) -> PodEnd | None:
        """Whose failure no other pod of an elastic job can have made good: there is none after the first success."""
        if self.failure is None or self.success is None:
            return None
        return self.failure if self.failure.end.when > self.success.end.when - LAST_S else None


def _order(one: PodEnd) -> tuple[bool, bool, float]:
    return one.end.code in RETRIED, one.end.code == ELSEWHERE, one.end.when


class Run:
    """A job that is watched until it ends.

    Args:
        start_timeout_s: how long pods may take until all have run.
    """

    def __init__(self, cluster: Cluster, spec: JobSpec, start_timeout_s: float) -> None:
        self._cluster, self._spec = cluster, spec
        self._output = Output(cluster, follow=True)
        self._deadline = time.monotonic() + start_timeout_s
        self._start_timeout_s = start_timeout_s
        self._all_ran = False
        self._said = ""
        self._ends = Ends()
        self._few = ""  # said

    def watch(self) -> int:
        """The exit code of the job.

        Raises:
            ClusterError: it cannot be watched any longer.
        """
        answered, absent = time.monotonic(), ""
        while True:
            try:
                code = self._look()
                answered, absent = time.monotonic(), ""
            except ClusterError as error:
                if error.code in (401, 403) or time.monotonic() - answered > ABSENT_S:
                    raise
                if not absent:
                    absent = str(error)
                    say(f"the cluster does not answer, asking on: {absent}")
                code = None
            if code is not None:
                return code
            if self._output.failure:
                say(f"{self._output.failure}: ending the job")
                return 1
            time.sleep(LOOK_S if self._all_ran else START_LOOK_S)

    def _look(self) -> int | None:
        """The exit code, if there is one."""
        job = self._cluster.job(self._spec.name)
        if job is None:
            say(f"job {self._spec.name} was deleted")
            return 1
        pods = self._cluster.pods(self._spec.name, "script")
        for pod in pods:
            if (end := ended(pod)) is not None:
                self._ends.add(pod.metadata.name, end)
            if pod.status.phase in ("Running", "Succeeded", "Failed"):
                self._output.follow(pod.metadata.name, end is not None)
        self._output.forget({pod.metadata.name for pod in pods})
        states = {c.type for c in job.status.conditions or () if c.status == "True"}
        if states & {"Complete", "Failed"}:
            for pod in pods:
                self._output.follow(pod.metadata.name, True)
            self._output.end(REST_S)
            return self._verdict("Complete" in states, job)
        if self._all_ran:
            self._say_if_few(pods)
            return None
        return None if self._starts(pods) else 1

    def _starts(self, pods: list[Any]) -> bool:
        """Says what is waited for; False: for too long."""
        running = len({index_of(pod) for pod in pods if pod.status.phase in ("Running", "Succeeded")})
        controllers = self._cluster.pods(self._spec.name, "controller")
        late = time.monotonic() >= self._deadline
        enough = self._spec.least if self._spec.least and late else self._spec.processes
        led = any(pod.status.phase == "Running" for pod in controllers)
        self._all_ran = running * self._spec.slots >= enough and led
        sentence = f"{running} of {self._spec.pods} pods run{self._reasons(controllers, pods)}"
        if sentence != self._said:
            self._said = sentence
            say(sentence)
        if self._all_ran or not late:
            return True
        whole = "enough" if self._spec.least else "all"
        say(f"not {whole} pods ran within {self._start_timeout_s:g} s (--start-timeout): ending the job")
        return False

    def _reasons(self, controllers: list[Any], pods: list[Any]) -> str:
        """Why pods do not run, to be added to a sentence; "": nothing is known."""
        waits = [(pod.metadata.name, why) for pod in [*controllers, *pods] if (why := why_waits(pod))]
        if not waits and len(pods) < self._spec.pods:
            waits = [("its Job", text) for text in self._cluster.complaints(self._spec.name, "Job")[-1:]]
        text = ""
        # Each reason once.
        for why in dict.fromkeys(why for _, why in waits):
            who = [name for name, each in waits if each == why]
            text += f"; {who[0]}" + (f" and {len(who) - 1} more" if len(who) > 1 else "") + f": {why}"
        return text

    def _say_if_few(self, pods: list[Any]) -> None:
        """Of an elastic job that has begun: that it waits for pods, why, and that it goes on."""
        running = self._spec.slots * sum(pod.status.phase == "Running" for pod in pods)
        # After the first success no pod is made any more: fewer and fewer run until the end.
        if running >= self._spec.least or self._ends.success is not None:
            if self._few:
                say(f"{running} processes run again")
            self._few = ""
            return
        controllers = self._cluster.pods(self._spec.name, "controller")
        sentence = f"{running} processes run, the job waits until --min-np {self._spec.least} do"
        sentence += self._reasons(controllers, pods)
        if sentence != self._few:
            self._few = sentence
            say(sentence)

    def _verdict(self, complete: bool, job: Any) -> int:
        name = self._spec.name
        if complete:
            lost = self._ends.lost_at_the_end() if self._spec.least else None
            if lost is None:
                return 0
            say(f"job {name} is complete, but {lost} when others had finished, or were about to")
            return lost.end.code
        if self._ends.fault is None:
            why = "; ".join(f"{c.reason}: {c.message}" for c in job.status.conditions or () if c.type == "Failed")
            say(f"job {name} failed: {why}")
            return 1
        say(f"job {name} failed: {self._ends.fault}")
        return self._ends.fault.end.code
