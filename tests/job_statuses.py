"""Statuses of jobs, made up: JobStatus of proto/farandole/v1/status.proto in protobuf's JSON."""

from __future__ import annotations

from farandole.launch.dashboard.events import ranks_text


def status(ranks: int, per_host: int = 0, **fields: object) -> dict:
    """Of a job that replays; rank N is late by 1.5 N ms. With `per_host` ranks on each host, else all on one."""
    traffic = {"batches": "77", "tensors": "1234567", "bytes": "5000000000"}
    members = [
        {
            "member": {
                "rank": rank,
                "host": f"host{rank // per_host}" if per_host else "h",
                "pid": str(1000 + rank),
            },
            "responsive": True,
            "cause": "",
            "openRequests": 0,
            "left": False,
            "lateness": {"meanUs": str(1500 * rank), "maxUs": "20000", "lastCount": str(rank)},
            "traffic": traffic,
            "reportAgeMs": "900",
        }
        for rank in range(ranks)
    ]
    traffic = {"batches": 10, "tensors": 1610, "bytes": 12_300_000, "cacheHits": 99, "cacheMisses": 1, "messages": 20}
    return {
        "job": "run-1",
        "state": "JOB_STATE_RUNNING",
        "activity": "ACTIVITY_REPLAYING",
        "reason": "",
        "generation": {"number": "1"},
        "controllerIncarnation": "7",
        "phase": 3,
        "size": ranks,
        "members": members,
        "waits": [],
        "divergence": "",
        "communicatesBy": "CPU tensors by hier (not verbs: rank 0 (pid 1 on host h): no device)",
        "replay": {"index": "9", "batches": 5, "tensors": 161, "repetitions": "12345", "ageMs": "185000"},
        "traffic": {name: str(count) for name, count in traffic.items()},
        "batchesPerSecond": "480",
        "tensorsPerSecond": "4100",
        "bytesPerSecond": "1200000000",
        **fields,
    }


def wait(age_ms: int, ready: list[int], missing: list[int], name: str = "allreduce.weight") -> dict:
    """Ranks that wait for others with one tensor."""
    return {
        "kind": "WAIT_KIND_TENSOR",
        "processSet": 0,
        "ageMs": str(age_ms),
        "readyRanks": ready,
        "missingRanks": missing,
        "readyCount": len(ready),
        "missingCount": len(missing),
        "names": [name],
        "nameCount": 1,
        "instead": [],
        "text": f"for {age_ms // 1000} s {ranks_text(ready)} have waited for {ranks_text(missing)} with `{name}`",
    }
