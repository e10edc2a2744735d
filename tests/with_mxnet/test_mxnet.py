"""The front end for MXNet, with the python3 and the MXNet that are on the PATH: `make test-mxnet`."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import old_scripts
import processes
import pytest

HERE = Path(__file__).parent
HEAD = """
import os, signal, sys, threading, time
import mxnet as mx
from mxnet import nd
import farandole.mxnet as hvd
hvd.init()
"""


def run(folder: Path, ranks: int, worker: str, *arguments: str, **variables: str) -> processes.Job:
    folder.mkdir(exist_ok=True)
    command = processes.launch_command(ranks, sys.executable, str(HERE / worker), *arguments)
    with processes.running(command, folder, variables) as job:
        assert job.wait(300) == 0, job.report()
    return job


def launch(folder: Path, ranks: int, body: str) -> processes.Job:
    path = folder / "script.py"
    path.write_text(HEAD + body)
    with processes.running(processes.launch_command(ranks, sys.executable, str(path)), folder) as job:
        job.wait(120)
    return job


def passes(job: processes.Job, ranks: int) -> None:
    cases = re.findall(r"^def (case_\w+)", (HERE / "collectives_worker.py").read_text(), re.MULTILINE)
    assert cases and sorted(job.lines("passed ")) == sorted(ranks * cases), job.report()


@pytest.mark.parametrize("name", ["mxnet_2019", "mxnet_module_2019"])
def test_scripts_for_horovod_learn(tmp_path: Path, name: str) -> None:
    old_scripts.learns(tmp_path, name)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_collectives_against_numpy(tmp_path: Path, ranks: int) -> None:
    passes(run(tmp_path, ranks, "collectives_worker.py"), ranks)


def test_with_the_engine_that_runs_everything_at_once(tmp_path: Path) -> None:
    """All but one case: in another order on each rank is what this engine cannot do."""
    job = run(tmp_path, 1, "collectives_worker.py", MXNET_ENGINE_TYPE="NaiveEngine")
    passes(job, 1)
    script = """
print("sum", hvd.allreduce(nd.ones((2,)), op=hvd.Sum).asnumpy().tolist())
try:
    hvd.allreduce(nd.ones((2 + hvd.rank(),)), name="shapes")
except hvd.TensorMismatchError:
    print("told")
"""
    folder = tmp_path / "two"
    folder.mkdir()
    path = folder / "script.py"
    path.write_text(HEAD + script)
    command = processes.launch_command(2, sys.executable, str(path))
    with processes.running(command, folder, {"MXNET_ENGINE_TYPE": "NaiveEngine"}) as job:
        assert job.wait(120) == 0, job.report()
    assert job.lines("sum ") == ["[2.0, 2.0]"] * 2 and job.stdout.count("told") == 2, job.report()


@pytest.mark.parametrize("way", ["gluon", "groups", "fp16", "predivide", "module"])
def test_training_is_that_of_one_process_with_all_batches(tmp_path: Path, way: str) -> None:
    together = run(tmp_path / "together", 3, "training_worker.py", way, "3")
    alone = run(tmp_path / "alone", 1, "training_worker.py", "module" if way == "module" else "gluon", "3")
    (wanted,) = map(float, alone.lines("loss "))
    losses = [float(loss) for loss in together.lines("loss ")]
    within = 1e-2 if way == "fp16" else 1e-9
    assert len(losses) == 3 and wanted < 0.1 and all(abs(loss - wanted) < within for loss in losses), (wanted, losses)
    assert len(set(together.lines("bytes "))) == 1 and len(together.lines("bytes ")) == 3


def test_a_killed_rank_is_named_where_a_result_is_read(tmp_path: Path) -> None:
    script = """
for i in range(10**9):
    if i == 20 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        hvd.allreduce(nd.ones((1000,)), name="x").asnumpy()
    except mx.base.MXNetError as error:
        print("told", str(error).replace("\\n", " "), flush=True)
        raise
"""
    job = launch(tmp_path, 2, script)
    assert job.process.returncode != 0
    assert re.search(r"told .*farandole error -5: .*rank 1 \(pid \d+", job.stdout), job.report()


def test_an_interrupt_ends_a_read_that_waits(tmp_path: Path) -> None:
    script = """
hvd.allreduce(nd.ones((2,)), name="first").asnumpy()
if hvd.rank() == 0:
    time.sleep(8)
    os._exit(0)
begin = time.monotonic()
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    hvd.allreduce(nd.ones((2,)), name="x").asnumpy()
    print("no interrupt", flush=True)
except (KeyboardInterrupt, mx.base.MXNetError):
    print("interrupted", time.monotonic() - begin, flush=True)
os._exit(0)
"""
    job = launch(tmp_path, 2, script)
    after = job.lines("interrupted ")
    assert len(after) == 1 and float(after[0]) < 3.0, job.report()


def test_a_trainer_takes_the_plain_optimizer_out_of_a_distributed_one(tmp_path: Path) -> None:
    script = """
import warnings
net = mx.gluon.nn.Dense(1, in_units=2)
net.initialize()
wrapped = hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=0.1))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    trainer = hvd.DistributedTrainer(net.collect_params(), wrapped)
assert any("plain optimizer" in str(each.message) for each in told), told
assert type(trainer._optimizer) is mx.optimizer.SGD and trainer._optimizer.rescale_grad == 1.0
try:
    hvd.DistributedTrainer(net.collect_params(), "sgd", gradient_predivide_factor=0.0)
except ValueError as error:
    print("refused", error, flush=True)
"""
    job = launch(tmp_path, 2, script)
    assert job.process.returncode == 0, job.report()
    assert job.lines("refused ") == ["gradient_predivide_factor must be positive, got 0.0"] * 2


def test_the_example_learns_and_what_it_saves_loads_without_us(tmp_path: Path) -> None:
    example = processes.ROOT / "examples" / "mxnet_images.py"
    with processes.running(processes.launch_command(2, sys.executable, str(example)), tmp_path) as job:
        assert job.wait(300) == 0, job.report()
    (right,) = job.lines("right: ")
    assert float(right.rstrip("%")) > 90, job.report()
    script = """
import sys
sys.modules["farandole"] = None
import mxnet as mx
net = mx.gluon.nn.HybridSequential()
layers = mx.gluon.nn
net.add(layers.Conv2D(16, 3, strides=2), layers.Conv2D(32, 3, strides=2), layers.Dense(10))
net.load_parameters("mxnet_images.params")
print("shape", net(mx.nd.ones((1, 1, 28, 28))).shape)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == "shape (1, 10)\n", done


# Parameters and defaults, as Horovod 0.28.1 has them; G: the global process set.
SIGNATURES = {
    "allreduce": "tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, "
    "process_set=G, op=None",
    "allreduce_": "tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, "
    "process_set=G, op=None",
    "grouped_allreduce": "tensors, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, "
    "process_set=G, op=None",
    "grouped_allreduce_": "tensors, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, "
    "process_set=G, op=None",
    "allgather": "tensor, name=None, priority=0, process_set=G",
    "grouped_allgather": "tensors, name=None, priority=0, process_set=G",
    "broadcast": "tensor, root_rank, name=None, priority=0, process_set=G",
    "broadcast_": "tensor, root_rank, name=None, priority=0, process_set=G",
    "alltoall": "tensor, splits=None, name=None, priority=0, process_set=G",
    "reducescatter": "tensor, op=0, name=None, priority=0, process_set=G, prescale_factor=1.0, postscale_factor=1.0",
    "grouped_reducescatter": "tensors, op=0, name=None, priority=0, process_set=G, prescale_factor=1.0, "
    "postscale_factor=1.0",
    "broadcast_object": "obj, root_rank=0, name=None",
    "allgather_object": "obj, name=None",
    "broadcast_parameters": "params, root_rank=0, prefix=None",
    "DistributedOptimizer": "optimizer, gradient_predivide_factor=1.0, num_groups=0, process_set=G",
    "DistributedTrainer": "params, optimizer, optimizer_params=None, compression=none, gradient_predivide_factor=1.0, "
    "prefix=None, num_groups=0, process_set=G",
}


def test_signatures_are_those_of_horovod() -> None:
    import farandole.mxnet as hvd

    shown = {id(hvd.global_process_set): "G", id(hvd.Compression.none): "none"}
    for name, wanted in SIGNATURES.items():
        parameters = inspect.signature(getattr(hvd, name)).parameters.values()
        found = [
            p.name if p.default is p.empty else f"{p.name}={shown.get(id(p.default), repr(p.default))}"
            for p in parameters
        ]
        assert ", ".join(found) == wanted, name


def test_the_alias_is_this_module(tmp_path: Path) -> None:
    script = """
import horovod.mxnet as alias
import horovod.mxnet.mpi_ops
assert alias is hvd and alias.size() == 2
print("same")
"""
    path = tmp_path / "script.py"
    path.write_text(HEAD + script)
    places = os.pathsep.join([str(processes.ROOT / "alias"), processes.environment().get("PYTHONPATH", "")])
    command = processes.launch_command(2, sys.executable, str(path))
    with processes.running(command, tmp_path, {"PYTHONPATH": places}) as job:
        assert job.wait(60) == 0, job.report()
    assert job.stdout.count("same") == 2
