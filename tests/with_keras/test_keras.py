"""The front ends for Keras, with the python3 and the Keras that are on the PATH: `make test-keras`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import old_scripts
import pages
import processes
import pytest

HERE = Path(__file__).parent
IS_KERAS2 = metadata.version("keras").startswith("2.")
# A way is a backend of farandole.keras; "tf.keras": farandole.tensorflow.keras.
WAYS = ["tf.keras", "tensorflow"] if IS_KERAS2 else ["tf.keras", "tensorflow", "jax", "torch"]
# Importing TensorFlow takes ten seconds of computing, and each graph of Keras one.
TIMEOUT_S = 400.0


def run_cases(folder: Path, way: str, ranks: int, name: str) -> processes.Job:
    command = processes.launch_command(ranks, sys.executable, str(HERE / name), way)
    with processes.running(command, folder) as job:
        assert job.wait(TIMEOUT_S) == 0, job.report()
    cases = re.findall(r"^def (case_\w+)", (HERE / name).read_text(), re.MULTILINE)
    assert cases and sorted(job.lines("passed ")) == sorted(ranks * cases), job.report()
    return job


# Three ranks have process sets that are not all ranks; one way does for that, which takes minutes.
SIZES = [(WAYS[-1], 1), ("tensorflow", 3), *((way, 2) for way in WAYS if way != "tensorflow")]


@pytest.mark.parametrize(("way", "ranks"), SIZES)
def test_optimizers(tmp_path: Path, way: str, ranks: int) -> None:
    run_cases(tmp_path, way, ranks, "optimizer_worker.py")


@pytest.mark.parametrize("name", ["keras_2019", "keras_2023"])
def test_scripts_for_horovod_learn(tmp_path: Path, name: str) -> None:
    old_scripts.learns(tmp_path, name)
    assert list((tmp_path / "checkpoints").glob("*.keras"))


# As Horovod's examples resume: rank 0 loads a model, the others build theirs, and all get what rank 0 has.
RESUME = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, {here!r})
from models import hvd, keras, np

hvd.init()
layers = keras.layers

def built():
    inner = keras.Sequential([layers.Dense(3), layers.Dense(3)])
    model = keras.Sequential([layers.Conv2D(2, 3, input_shape=(6, 6, 1)), layers.Flatten(), inner, layers.Dense(3)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss="mse")
    return model

x = np.random.default_rng(hvd.rank()).random((16, 6, 6, 1))
resumes = os.path.exists("model.keras")
model = hvd.load_model("model.keras") if resumes and hvd.rank() == 0 else built()
model.fit(x, np.zeros((16, 3)), verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
if not resumes:
    hvd.allreduce(np.zeros(1), name="before it is there")
    if hvd.rank() == 0:
        model.save("model.keras")
print("sum", resumes, repr(float(sum(np.abs(w).sum() for w in model.get_weights()))), flush=True)
hvd.shutdown()
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_has_loaded_its_model_trains_with_others_that_have_built_theirs(tmp_path: Path, way: str) -> None:
    (tmp_path / "resume.py").write_text(RESUME.format(here=str(HERE)))
    for resumes in ("False", "True"):
        command = processes.launch_command(2, sys.executable, str(tmp_path / "resume.py"), way)
        with processes.running(command, tmp_path) as job:
            assert job.wait(TIMEOUT_S) == 0, job.report()
        one, other = job.lines("sum ")
        assert one == other and one.split()[0] == resumes, job.report()


# What was saved, in a process that cannot import Farandole, and goes on training there.
LOAD = """
import os, sys
sys.modules["farandole"] = None
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
if sys.argv[1] == "tf.keras":
    import tensorflow as tf
    keras = tf.keras
else:
    import keras
keras.backend.set_floatx("float64")
for name in sys.argv[2:]:
    model = keras.models.load_model(f"saved.{name}.keras")
    variables = model.optimizer.variables
    variables = variables() if callable(variables) and not isinstance(variables, list) else variables
    saved = np.load(f"saved.{name}.npz")
    for i, variable in enumerate([*model.weights, *([] if name == "legacy" else variables)]):
        assert np.allclose(saved[f"arr_{i}"], np.asarray(keras.ops.convert_to_numpy(variable) if hasattr(keras, "ops")
                                                         else variable.numpy())), (name, i)
    assert len(saved) == i + 1
    assert type(model.optimizer).__module__.startswith("keras."), type(model.optimizer)
    model.fit(np.ones((4, 5)), np.ones((4, 2)), verbose=0)
    print("loaded", name, type(model.optimizer).__name__, flush=True)
"""


@pytest.mark.parametrize(("way", "ranks"), [(WAYS[-1], 1), *((way, 2) for way in WAYS)])
def test_callbacks_states_functions_and_files(tmp_path: Path, way: str, ranks: int) -> None:
    run_cases(tmp_path, way, ranks, "callbacks_worker.py")
    names = sorted(path.name.split(".")[1] for path in tmp_path.glob("saved.*.keras"))
    assert len(names) >= 3
    script = tmp_path / "load.py"
    script.write_text(LOAD)
    backend = "tensorflow" if way == "tf.keras" else way
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(script), way, *names]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert re.findall(r"loaded (\w+)", done.stdout) == names, done.stdout + done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_training_goes_on_when_a_worker_is_killed(tmp_path: Path, way: str) -> None:
    command = processes.launch_command(
        2,
        sys.executable,
        str(HERE / "elastic_worker.py"),
        way,
        options=("--min-np", "1", "--max-np", "2"),
    )
    with processes.running(command, tmp_path) as job:
        assert job.wait(TIMEOUT_S) == 0, job.report()
    assert job.lines("killing "), job.report()
    # The launcher starts the killed one again, which may come before the end.
    ended = job.lines("ended ")
    assert ended and all(re.fullmatch(r"epoch 6 batch 0 steps 48 size [12]", line) for line in ended), job.report()
    resumed = [tuple(map(int, line.split())) for line in job.lines("resumed at ")]
    assert resumed and all(1 <= epoch <= 5 for epoch, _ in resumed), job.report()


@pytest.mark.parametrize("package", ["keras", "tensorflow.keras"])
def test_signatures_are_those_of_horovod(package: str) -> None:
    table = "OF_KERAS" if package == "keras" else "OF_TENSORFLOW_KERAS"
    script = f"""
import inspect, operator, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, {str(HERE)!r})
import farandole.{package} as hvd
from signatures import {table} as table
names = {{"Average": hvd.Average, "Sum": hvd.Sum, "G": hvd.global_process_set, "C": hvd.Compression}}
assert (hvd.Average, hvd.Sum) == (0, 1)
arguments = lambda f: [(p.name, p.kind.name, p.default) for p in inspect.signature(f).parameters.values()]
for name, text in table.items():
    function = operator.attrgetter(name.lstrip("*"))(hvd)
    assert inspect.isclass(function) == name.startswith("*"), name
    wanted = {{}}
    exec(f"def f({{text}}): pass", dict(names), wanted)
    assert arguments(function) == arguments(wanted["f"]), (name, arguments(function))
public = {{name.lstrip("*").split(".")[0] for name in table}} | {{"Average", "Sum", "Compression", "__version__"}}
assert set(hvd.__all__) == public | {{"global_process_set"}}, set(hvd.__all__) ^ public
print("checked", len(table))
"""
    environment = {**os.environ, "PYTHONPATH": str(processes.ROOT / "python"), "KERAS_BACKEND": "tensorflow"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert re.search(r"checked \d\d", done.stdout), done.stdout + done.stderr


@pytest.mark.parametrize("name", ["keras", "tensorflow.keras"])
def test_the_names_of_horovod(name: str) -> None:
    script = f"""
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import horovod.{name} as other
import farandole.{name} as hvd
from horovod.{name}.callbacks import MetricAverageCallback
from horovod.{name} import elastic
import horovod.{name}.elastic
assert other is hvd and MetricAverageCallback is hvd.callbacks.MetricAverageCallback
assert elastic is hvd.elastic and elastic.KerasState is horovod.{name}.elastic.KerasState
print("well")
"""
    paths = os.pathsep.join(str(processes.ROOT / folder) for folder in ("python", "alias"))
    environment = {**os.environ, "PYTHONPATH": paths, "KERAS_BACKEND": "tensorflow"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.stdout == "well\n", done.stdout + done.stderr


EXAMPLES = [
    ("keras_images.py", "--epochs 3", r"test accuracy (0\.9\d+|1\.0+), processes 2"),
    ("keras_elastic.py", "--epochs 6 --pause 0", r"slope (3\.00|2\.99)\d, offset (1\.00|0\.99)\d, processes 2"),
]


@pytest.mark.skipif(IS_KERAS2, reason="the examples are for Keras 3")
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
@pytest.mark.parametrize(("name", "arguments", "result"), EXAMPLES)
def test_examples(tmp_path: Path, name: str, arguments: str, result: str, backend: str) -> None:
    script = str(processes.ROOT / "examples" / name)
    command = processes.launch_command(2, sys.executable, script, *arguments.split())
    with processes.running(command, tmp_path, {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}) as job:
        assert job.wait(TIMEOUT_S) == 0 and re.search(result, job.stdout), job.report()


DATA = """
import numpy as np
images = np.random.default_rng(0).standard_normal((256, 784)).astype(np.float32)
labels = images[:, :10].argmax(1)
"""


@pytest.mark.skipif(IS_KERAS2, reason="the script of the page is for Keras 3")
def test_the_scripts_of_the_docs(tmp_path: Path) -> None:
    """With data, for which the page has only names; all ranks end with the same weights."""
    scripts = dict(pages.blocks(pages.DOCS / "keras.md", "python"))
    path = tmp_path / "train.py"
    path.write_text(DATA + scripts['title="train.py"'] + "\nprint('weights', float(model.get_weights()[0].sum()))\n")
    with processes.running(processes.launch_command(2, sys.executable, str(path)), tmp_path) as job:
        assert job.wait(TIMEOUT_S) == 0, job.report()
    weights = job.lines("weights ")
    assert len(weights) == 2 and len(set(weights)) == 1, job.report()
    assert (tmp_path / "model.keras").exists()
    path = tmp_path / "elastic.py"
    path.write_text(DATA + scripts['title="elastic.py"'] + "\nprint('epochs', state.epoch, state.batch)\n")
    command = processes.launch_command(2, sys.executable, str(path), options=("--min-np", "1"))
    with processes.running(command, tmp_path) as job:
        assert job.wait(TIMEOUT_S) == 0, job.report()
    assert job.lines("epochs ") == ["10 0"] * 2, job.report()
