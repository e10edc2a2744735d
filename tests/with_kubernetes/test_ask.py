"""Who waits for whom in a job of a cluster, asked from outside of it: `farandole kubernetes status` and `dashboard`."""

from __future__ import annotations

import re
import subprocess

from cluster import Cluster
from jobs import command, interrupt, kill, leads, leads_instead, name_of, run

LATE = """
import os, time
import torch
import farandole.torch as hvd
hvd.init()
while hvd.rank() == 1 and not os.path.exists("/tmp/enough"): time.sleep(0.1)
hvd.allreduce(torch.ones(1), name="late")
"""
WAITS = r"rank 0 has waited for rank 1 with `allreduce.late`"
# Where the cluster's network is: reads the page, then what it is told until that has these words.
LOOK = """
import sys, urllib.request
url, words = sys.argv[1:]
assert b"Farandole" in urllib.request.urlopen(url, timeout=20).read()
with urllib.request.urlopen(url + "events", timeout=20) as stream:
    for line in stream:
        if words.encode() in line: break
"""


def look(cluster: Cluster, url: str, words: str) -> None:
    seen = cluster.python("-c", LOOK, url, words, stderr=subprocess.PIPE)
    _, errors = seen.communicate(timeout=60)
    assert seen.returncode == 0, errors


def test_who_waits_for_whom_is_told_and_shown(cluster: Cluster) -> None:
    with run(cluster, "asked", 2, LATE) as job:
        said = job.until(lambda: re.search(WAITS, text := command(cluster, "status", "asked")) and text, WAITS)
        assert "job asked: under way" in said and said.count("Running on ") == 3, said
        page = cluster.python("-m", "farandole", "kubernetes", "dashboard", "asked", stdout=subprocess.PIPE)
        try:
            assert page.stdout is not None
            (url,) = re.findall(r"http://\S+", page.stdout.readline())
            look(cluster, url, "allreduce.late")
            # Its controller is another pod from then on: the page finds it.
            before = leads(job)
            kill(name_of(before), "farandole-controller")
            cluster.kubectl("delete", "pod", name_of(before), "--wait=false", check=False)
            job.until(lambda: leads_instead(job, before), "another controller")
            look(cluster, url, "there is a status again")
        finally:
            interrupt(page.pid)
            assert page.wait(30) == 130
        (late,) = [pod for pod in job.running() if name_of(pod).startswith("asked-1-")]
        cluster.kubectl("exec", name_of(late), "--", "touch", "/tmp/enough")
        assert job.wait() == 0, job.report()
