"""tf.data's service between a job that computes and one that trains."""

from __future__ import annotations

import sys
from pathlib import Path

import processes
import pytest
from tensorflow_jobs import launch

TRAIN = """
from farandole.tensorflow.data.compute_service import TfDataServiceConfig, send_to_data_service, tf_data_service

config = TfDataServiceConfig.read({config!r}, wait_for_file_creation=True)
assert TfDataServiceConfig.from_dict(config.to_dict()) == config
service = tf.data.experimental.service
data = tf.data.Dataset.range(40)

def everything(dataset):
    own = sorted(int(each) for each in dataset)
    return own, sorted(number for part in hvd.allgather_object(own) for number in part)

if config.dispatcher_side == "training":
    with tf_data_service(config, hvd.rank()) as address:
        own, every = everything(data.apply(service.distribute("distributed_epoch", address, job_name="shared")))
        assert every == list(range(40)), every
        # Its dispatcher is to last until all have read.
        hvd.allreduce(tf.zeros([1]), name="end")
    try:
        send_to_data_service(data, config, hvd.rank())
    except RuntimeError as error:
        assert "tf_data_service" in str(error), error
    else:
        raise AssertionError("no error")
else:
    assert everything(data.send_to_data_service(config, hvd.rank(), hvd.size()))[0] == list(range(40))
    shared = send_to_data_service(data, config, hvd.rank(), hvd.size(), reuse_dataset=True)
    assert everything(shared)[1] == list(range(40))
    turns = send_to_data_service(
        data.repeat(), config, hvd.rank(), hvd.size(), "parallel_epochs", reuse_dataset=True, round_robin=True
    )
    assert len(list(turns.take(10))) == 10
print("read", flush=True)
hvd.allreduce(tf.zeros([1]), name="read")
if hvd.rank() == 0:
    config.compute_client(verbose=2).shutdown()
hvd.shutdown()
"""


@pytest.mark.parametrize("side", ["compute", "training"])
def test_one_job_trains_with_what_another_one_computes(tmp_path: Path, side: str) -> None:
    config = tmp_path / "compute.json"
    module = ["-m", "farandole.tensorflow.data.compute_worker", "--dispatcher-side", side, str(config)]
    command = processes.launch_command(2, sys.executable, *module)
    (tmp_path / "train").mkdir()
    (tmp_path / "compute").mkdir()
    with processes.running(command, tmp_path / "compute") as compute:
        job = launch(tmp_path / "train", 2, TRAIN.format(config=str(config)))
        assert job.process.returncode == 0 and len(job.lines("read")) == 2, job.report() + compute.report()
        assert compute.wait(30) == 0, compute.report()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compute", "train"]


def test_what_is_refused(tmp_path: Path) -> None:
    script = """
from farandole.tensorflow.data import compute_service, compute_worker

config = compute_service.TfDataServiceConfig(1, 1, "training", {"folder": ["."]}, b"key", timeout=0)
config.write("config.json")
assert compute_service.TfDataServiceConfig.read("config.json") == config
for error, text, call in (
    (TimeoutError, "dispatcher 0 of tf.data was not there", lambda: compute_service.compute_worker_fn(config)),
    (ValueError, "cannot be divided among 3", lambda: compute_worker.main(3, "compute", "config.json", 1)),
    (ValueError, "dispatcher_side", lambda: compute_service.TfDataServiceConfig(1, 1, "both", {}, b"")),
    (ValueError, "positive", lambda: compute_service.TfDataServiceConfig(0, 1, "compute", {}, b"")),
):
    try:
        call()
    except error as found:
        assert text in str(found), found
    else:
        raise AssertionError(text)
print("refused", flush=True)
"""
    job = launch(tmp_path, 1, script)
    assert job.process.returncode == 0 and job.lines("refused"), job.report()
