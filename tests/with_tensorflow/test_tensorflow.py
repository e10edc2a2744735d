"""The front end for TensorFlow, with the python3 and the TensorFlow that are on the PATH: `make test-tensorflow`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import old_scripts
import pages
import processes
import pytest
from tensorflow_jobs import cases_pass, launch, run


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_collectives_against_numpy(tmp_path: Path, ranks: int) -> None:
    cases_pass(tmp_path, ranks, "collectives_worker.py")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_optimizers_against_arithmetic(tmp_path: Path, ranks: int) -> None:
    cases_pass(tmp_path, ranks, "optimizers_worker.py")


@pytest.mark.parametrize("ranks", [1, 3])
def test_batch_normalisation_is_that_of_the_whole_batch(tmp_path: Path, ranks: int) -> None:
    cases_pass(tmp_path, ranks, "batch_norm_worker.py")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_functions_that_xla_compiles(tmp_path: Path, ranks: int) -> None:
    cases_pass(tmp_path, ranks, "compiled_worker.py")


def test_training_is_that_of_one_process_with_all_batches(tmp_path: Path) -> None:
    folders = [tmp_path / "together", tmp_path / "alone"]
    for folder in folders:
        folder.mkdir()
    together = run(folders[0], 3, "training_worker.py", "together")
    alone = sorted(map(float, run(folders[1], 1, "training_worker.py", "alone", "3").lines("loss ")))
    assert len(alone) == 20 and alone[0] < alone[-1] / 2
    # Each step is printed by all three.
    found = sorted(map(float, together.lines("loss ")))
    assert len(found) == 60
    for one, three in zip(alone, zip(found[::3], found[1::3], found[2::3])):
        assert max(abs(one - each) for each in three) < 1e-9
    assert len(set(together.lines("bytes "))) == 1 and len(together.lines("bytes ")) == 3


def test_a_script_of_2023_learns(tmp_path: Path) -> None:
    old_scripts.learns(tmp_path, "tensorflow_2023")
    assert list((tmp_path / "checkpoints").glob("*.index"))


GRAPH = """
v = tf.Variable([1.0, 2.0])

def asks(**options):
    @tf.function
    def gradients():
        with hvd.DistributedGradientTape(tf.GradientTape(), **options) as tape:
            loss = tf.reduce_sum(v * v)
        return tape.gradient(loss, v)

    assert gradients().numpy().tolist() == [2, 4]
    return any("arandole" in o.type for o in gradients.get_concrete_function().graph.get_operations())

factor = asks(gradient_predivide_factor=2.0)
half = asks(compression=hvd.Compression.fp16)
rank = hvd.rank()
before = asks()
hvd.shutdown()
hvd.init([rank] if not ELASTIC else None)
print("asks", hvd.size(), before, asks(), factor, half, flush=True)
"""


@pytest.mark.parametrize(
    "options, ranks, expected",
    [
        ((), 1, "1 False False True True"),
        (("--min-np", "1"), 1, "1 True True True True"),
        ((), 2, "1 True True True True"),
    ],
    ids=["alone", "elastic", "part"],
)
def test_a_graph_has_no_collectives_if_there_will_be_no_other_rank(
    tmp_path: Path, options: tuple[str, ...], ranks: int, expected: str
) -> None:
    job = launch(tmp_path, ranks, f"ELASTIC = {bool(options)}" + GRAPH, *options)
    assert job.process.returncode == 0, job.report()
    assert job.lines("asks ") == [expected] * ranks


SERVE = """
import sys
sys.modules["farandole"] = None
import patterns
import tensorflow.compat.v1 as tf
graph = tf.GraphDef.FromString(open("graph.pb", "rb").read())
assert not [node.op for node in graph.node if "arandole" in node.op]
images, labels = patterns.load_data()[1]
with tf.Graph().as_default(), tf.Session() as session:
    tf.import_graph_def(graph, name="")
    found = session.run("predict:0", {"input/image:0": images.reshape(-1, 784) / 255.0})
print("accuracy", (found == labels).mean())
"""


def test_a_graph_of_a_script_of_2019_is_cut_for_inference(tmp_path: Path) -> None:
    old_scripts.learns(tmp_path, "tensorflow_2019")
    pages.write_scripts(pages.DOCS / "inference.md", tmp_path)
    (tmp_path / "serve_graph.py").write_text(SERVE)
    environment = {**os.environ, "PYTHONPATH": old_scripts.PATH, "TF_CPP_MIN_LOG_LEVEL": "3"}
    for words in (["strip.py", "checkpoints", "predict", "graph.pb"], ["serve_graph.py"]):
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0.9


def test_a_model_with_batch_normalisation_over_ranks_becomes_a_plain_one(tmp_path: Path) -> None:
    """As the page on inference does it."""
    code = dict(pages.blocks(pages.DOCS / "inference.md", "python"))['title="plain.py"']
    end = """
import numpy as np
hvd.init()
inner = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(3), hvd.SyncBatchNormalization()])
layers = [tf.keras.layers.Dense(3), hvd.SyncBatchNormalization(), inner, tf.keras.layers.Dense(1)]
model = tf.keras.Sequential([tf.keras.Input((4,)), *layers])
x = tf.random.normal((8, 4))
model(x, training=True)
copy = without_ranks(model)
inside = [*copy.layers, *copy.layers[2].layers]
assert len(inside) >= 6 and not [layer for layer in inside if "farandole" in type(layer).__module__]
print("same", bool(np.allclose(model(x), copy(x))), flush=True)
hvd.shutdown()
"""
    path = tmp_path / "script.py"
    path.write_text(code + end)
    with processes.running(processes.launch_command(2, sys.executable, str(path)), tmp_path) as job:
        assert job.wait() == 0, job.report()
    assert job.lines("same ") == ["True"] * 2


def test_a_killed_rank_is_named(tmp_path: Path) -> None:
    script = """
step = tf.function(lambda x: hvd.allreduce(x, name="x"))
for i in range(10**9):
    if i == 20 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        step(tf.ones([1000]))
    except tf.errors.UnknownError as error:
        print("unknown", error.message, flush=True)
        raise
"""
    job = launch(tmp_path, 2, script)
    assert job.process.returncode != 0
    assert re.search(r"unknown .*farandole error -5: .*rank 1 \(pid \d+", job.stdout), job.report()


@pytest.mark.parametrize("where", ["eager", "graph"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_call_that_waits(tmp_path: Path, where: str, number: str) -> None:
    script = f"""
step = lambda x: hvd.allreduce(x, name="x")
step = tf.function(step) if {where!r} == "graph" else step
step(tf.ones([10]))
if hvd.rank() == 0:
    time.sleep(15)
    sys.exit(0)
begin = time.monotonic()
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.{number})).start()
try:
    step(tf.ones([10]))
finally:
    print("ended after", time.monotonic() - begin, flush=True)
"""
    with processes.Stopwatch() as watch:
        job = launch(tmp_path, 2, script)
    if number == "SIGINT":
        (after,) = job.lines("ended after ")
        assert float(after) < 3.0, job.report()
    else:
        # The interpreter ends without a word of the script's.
        assert "signal 15" in job.stderr or "SIGTERM" in job.stderr, job.report()
    assert watch.seconds < 60, job.report()


def scripts_of_the_docs() -> dict[str, str]:
    return dict(pages.blocks(pages.DOCS / "tensorflow.md", "python"))


def run_a_script_of_the_docs(folder: Path, name: str, before: str, after: str) -> processes.Job:
    path = folder / name
    path.write_text(before + scripts_of_the_docs()[f'title="{name}"'] + after)
    with processes.running(processes.launch_command(2, sys.executable, str(path)), folder) as job:
        assert job.wait() == 0, job.report()
    return job


def test_the_script_of_the_docs(tmp_path: Path) -> None:
    """With data, for which the page has only names; all ranks end with the same weights."""
    data = """
import numpy as np
images = np.random.default_rng(0).standard_normal((256, 784)).astype(np.float32)
labels = images[:, :10].argmax(1)
"""
    end = """
print("weights", float(tf.reduce_sum(model.variables[0])), flush=True)
"""
    weights = run_a_script_of_the_docs(tmp_path, "train.py", data, end).lines("weights ")
    assert len(weights) == 2 and len(set(weights)) == 1, weights


def test_the_scripts_of_the_docs_with_several_passes(tmp_path: Path) -> None:
    end = 'print("weights", weight.numpy().tolist(), flush=True)\n'
    weights = run_a_script_of_the_docs(tmp_path, "passes.py", "", end).lines("weights ")
    assert len(weights) == 2 and len(set(weights)) == 1, weights
    end = """
print("learned", kept["steps"], float(np.abs(kept["weight"] - 1).max()) < 1.0, kept["weight"].tolist(), flush=True)
"""
    before = """
import numpy as np
import tensorflow as tf
kept = {}

class Keep(tf.compat.v1.train.SessionRunHook):
    def end(self, session):
        found = session.run([tf.compat.v1.global_variables("weight")[0], tf.compat.v1.train.get_global_step()])
        kept.update(weight=found[0], steps=found[1])

monitored = tf.compat.v1.train.MonitoredTrainingSession
tf.compat.v1.train.MonitoredTrainingSession = lambda hooks: monitored(hooks=[*hooks, Keep()])
"""
    learned = run_a_script_of_the_docs(tmp_path, "session.py", before, end).lines("learned ")
    assert len(learned) == 2 and len(set(learned)) == 1 and learned[0].startswith("100 True"), learned


EXAMPLES = [
    ("tensorflow2_images.py", "--epochs 1 --fp16-allreduce", r"test accuracy (0\.9\d+|1\.0+), processes 2"),
    ("tensorflow2_images.py", "--epochs 1 --jit-compile", r"test accuracy (0\.9\d+|1\.0+), processes 2"),
    ("tensorflow2_elastic.py", "--steps 100 --pause 0", r"slope 3\.000, offset 1\.000, processes 2"),
    (
        "tensorflow2_synthetic_benchmark.py",
        "--model convnet --batch-size 4 --num-warmup-batches 1 --num-batches-per-iter 1 --num-iters 2",
        r"Total img/sec on 2 CPU\(s\): \d+\.\d \+-",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "result"), EXAMPLES, ids=lambda each: str(each)[:40])
def test_examples(tmp_path: Path, name: str, arguments: str, result: str) -> None:
    script = str(processes.ROOT / "examples" / name)
    command = processes.launch_command(2, sys.executable, script, *arguments.split())
    with processes.running(command, tmp_path) as job:
        assert job.wait() == 0 and re.search(result, job.stdout), job.report()
