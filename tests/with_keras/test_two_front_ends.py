"""Two front ends in one process are ranks of one job: data of PyTorch beside a model of TensorFlow."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import processes
import pytest

SCRIPT = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import torch
import tensorflow as tf
import farandole.tensorflow as hvd
import farandole.torch as hvd_torch

hvd.init()
assert (hvd_torch.rank(), hvd_torch.size()) == (hvd.rank(), hvd.size())
sampler = torch.utils.data.DistributedSampler(range(64), hvd_torch.size(), hvd_torch.rank(), shuffle=False)
loader = torch.utils.data.DataLoader(torch.arange(64.0).reshape(64, 1), 8, sampler=sampler)
weight = tf.Variable([0.0])

@tf.function
def step(x):
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_mean((x * weight - 2 * x) ** 2)
    weight.assign_sub(1e-4 * tape.gradient(loss, weight))

for epoch in range(5):
    for batch in loader:
        # Operations of both are under way at the same time.
        handle = hvd_torch.allreduce_async(batch.mean() + hvd.rank(), name="torch.mean", op=hvd_torch.Sum)
        step(tf.constant(batch.numpy()))
        total = hvd.allreduce(tf.constant(batch.numpy().mean() + hvd.rank()), name="tensorflow.mean", op=hvd.Sum)
        assert float(hvd_torch.synchronize(handle)) == float(total)
weights = hvd_torch.allgather(torch.from_numpy(weight.numpy()))
assert (weights == weights[0]).all() and abs(float(weights[0]) - 2) < 0.01, weights
hvd_torch.shutdown()
assert not hvd.is_initialized()
print("one job", flush=True)
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="this environment has no torch")
def test_share_one_job(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    with processes.running(processes.launch_command(2, sys.executable, str(path)), tmp_path) as job:
        assert job.wait() == 0 and job.stdout.count("one job") == 2, job.report()
