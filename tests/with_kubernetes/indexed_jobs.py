"""Jobs as today's Kubernetes has them, for a cluster that is too old for these (1.20): stands in for its job controller
until it is killed.

Its API server drops what it does not know of a Job, completionMode and podFailurePolicy. So a Job with completions is
indexed here, and fails when a container ends with a code after which another attempt cannot help; one without is over
when a pod has succeeded and all have ended, and pods that end with code 75 or are deleted do not count.
"""

from __future__ import annotations

import os
import time
from typing import Any

import kubernetes

from farandole.launch.kubernetes.manifests import ELSEWHERE, RETRIED

INDEX = "batch.kubernetes.io/job-completion-index"


class Jobs:
    """Looks at all Jobs, again and again."""

    def __init__(self) -> None:
        kubernetes.config.load_kube_config(os.environ["KUBECONFIG"])
        self._core, self._batch = kubernetes.client.CoreV1Api(), kubernetes.client.BatchV1Api()
        self._api = kubernetes.client.ApiClient()

    def look(self) -> None:
        """Makes the pods that are missing, and says of Jobs that they have ended."""
        pods = self._core.list_pod_for_all_namespaces().items
        for job in self._batch.list_job_for_all_namespaces().items:
            if not any(c.status == "True" for c in job.status.conditions or ()):
                own = [p for p in pods if any(o.uid == job.metadata.uid for o in p.metadata.owner_references or ())]
                if job.spec.completions is None:
                    self._come_and_go(job, own)
                else:
                    self._go_on(job, own)

    def _come_and_go(self, job: Any, pods: list[Any]) -> None:
        active = [pod for pod in pods if pod.status.phase in ("Pending", "Running", "Unknown")]
        staying = [pod for pod in active if pod.metadata.deletion_timestamp is None]
        if any(pod.status.phase == "Succeeded" for pod in pods):
            return None if active else self._end(job, "Complete", "", "")
        counted = [pod for pod in pods if pod.status.phase == "Failed" and pod.metadata.deletion_timestamp is None]
        if sum(self._code(pod) != ELSEWHERE for pod in counted) > job.spec.backoff_limit:
            self._stop(active)
            return self._end(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        self._stop(sorted(staying, key=lambda pod: pod.metadata.creation_timestamp)[job.spec.parallelism :])
        for _ in range(job.spec.parallelism - len(staying)):
            self._make(job, None)
        return None

    def _go_on(self, job: Any, pods: list[Any]) -> None:
        failed = [pod for pod in pods if pod.status.phase == "Failed"]
        done = {pod.metadata.labels[INDEX] for pod in pods if pod.status.phase == "Succeeded"}
        active = [pod for pod in pods if pod.status.phase in ("Pending", "Running", "Unknown")]
        wanted = [str(index) for index in range(job.spec.parallelism)]
        if len(done) == len(wanted):
            return self._end(job, "Complete", "", "")
        codes = [self._code(pod) for pod in failed]
        final = [code for code in codes if code not in RETRIED and code is not None]
        if final:
            self._stop(active)
            return self._end(job, "Failed", "PodFailurePolicy", f"a container ended with code {final[0]}")
        if len(failed) > job.spec.backoff_limit:
            self._stop(active)
            return self._end(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        there = done | {pod.metadata.labels[INDEX] for pod in active}
        for index in wanted:
            if index not in there:
                self._make(job, index)

    @staticmethod
    def _code(pod: Any) -> int | None:
        for container in pod.status.container_statuses or ():
            if container.state.terminated is not None:
                return container.state.terminated.exit_code
        return None

    def _make(self, job: Any, index: str | None) -> None:
        template = self._api.sanitize_for_serialization(job.spec.template)
        about, spec = template["metadata"], template["spec"]
        about.pop("creationTimestamp", None)
        about["generateName"] = f"{job.metadata.name}-" + (f"{index}-" if index else "")
        about.setdefault("labels", {})["controller-uid"] = job.metadata.uid
        if index:
            about["labels"][INDEX] = index
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.metadata.name, "uid": job.metadata.uid}
        about["ownerReferences"] = [{**owner, "controller": True}]
        # What a scheduler does by itself for other pods that belong together: half of them to each node.
        alike = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        selector = {"matchLabels": {"controller-uid": job.metadata.uid}}
        spec.setdefault("topologySpreadConstraints", [{**alike, "labelSelector": selector}])
        for container in spec["containers"] if index else ():
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": index})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}
        self._core.create_namespaced_pod(job.metadata.namespace, pod)

    def _stop(self, pods: list[Any]) -> None:
        for pod in pods:
            self._core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace)

    def _end(self, job: Any, kind: str, reason: str, message: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        about = job.metadata
        self._batch.patch_namespaced_job_status(about.name, about.namespace, {"status": {"conditions": [condition]}})


def main() -> None:
    """A question that fails, as while an object goes, is asked again."""
    jobs = Jobs()
    print("ready", flush=True)
    while True:
        try:
            jobs.look()
        except kubernetes.client.ApiException as error:
            print(error.status, error.reason, error.body, flush=True)
        time.sleep(0.3)


if __name__ == "__main__":
    main()
