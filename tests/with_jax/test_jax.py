"""The front end for JAX, with the python3 and the JAX that are on the PATH: `make test-jax`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pages
import processes
import pytest

HERE = Path(__file__).parent


def run(folder: Path, ranks: int, worker: str, *arguments: str) -> processes.Job:
    command = processes.launch_command(ranks, sys.executable, str(HERE / worker), *arguments)
    with processes.running(command, folder) as job:
        assert job.wait(300) == 0, job.report()
    return job


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_collectives_against_numpy(tmp_path: Path, ranks: int) -> None:
    job = run(tmp_path, ranks, "collectives_worker.py")
    cases = re.findall(r"^def (case_\w+)", (HERE / "collectives_worker.py").read_text(), re.MULTILINE)
    assert cases and sorted(job.lines("passed ")) == sorted(ranks * cases), job.report()


def losses(job: processes.Job) -> list[float]:
    """Of the last rank that has said them, and in order."""
    return [float(text) for text in job.lines("loss ")]


@pytest.mark.parametrize("way", ["optax", "value_and_grad", "multi"])
def test_training_is_that_of_one_process_with_all_batches(tmp_path: Path, way: str) -> None:
    folders = [tmp_path / "together", tmp_path / "alone"]
    for folder in folders:
        folder.mkdir()
    together = run(folders[0], 3, "training_worker.py", way, "3")
    alone = losses(run(folders[1], 1, "training_worker.py", "alone", "3", *(["multi"] if way == "multi" else [])))
    assert len(alone) == 20 and alone[-1] < alone[0] / 2
    # Each step is printed by all three, which are as far as the slowest.
    found = sorted(losses(together), reverse=True)
    assert len(found) == 60
    for one, three in zip(sorted(alone, reverse=True), zip(found[::3], found[1::3], found[2::3])):
        assert max(abs(one - each) for each in three) < 1e-9
    assert len(set(together.lines("bytes "))) == 1 and len(together.lines("bytes ")) == 3


def test_a_killed_rank_is_named_in_a_compiled_function(tmp_path: Path) -> None:
    body = """
        hvd.init()
        step = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, name="x"))
        x = jnp.ones(1000)
        for i in range(10**9):
            x = jax.block_until_ready(step(x * 0 + 1))
            if i == 20 and hvd.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        """
    job = processes.launch(tmp_path, 2, body)
    assert job.process.returncode != 0
    assert re.search(r"farandole error -5: .*rank 1 \(pid \d+", job.stderr), job.report()


def test_the_others_go_on_in_an_elastic_job(tmp_path: Path) -> None:
    """Steps run while the script goes on, so that a commit meets one that is going to fail, and take their arguments'
    memory. Arrays of an allgather have other shapes in the next membership, gradients of a broadcast another root."""
    body = """
        hvd.init()
        params = {"w": jnp.zeros((400, 400))}
        state = hvd.elastic.JaxState(params=params, numbers={"a": np.zeros(2)}, step=0)
        gather = jax.jit(hvd.allgather)
        root_gradient = jax.jit(jax.grad(lambda x: hvd.broadcast(x, 0).sum()))

        def step(params):
            w = params["w"]
            for _ in range(10):
                w = w @ jnp.eye(400)
            return {"w": w + hvd.allreduce(jnp.ones((400, 400)), name="ones")}

        step = jax.jit(step, donate_argnums=0)

        @hvd.elastic.run
        def train(state):
            while state.step < 30:
                if state.step == 10 and hvd.size() == 3 and hvd.rank() == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                assert gather(jnp.ones((2, 1))).shape == (2 * hvd.size(), 1)
                assert root_gradient(jnp.ones(1))[0] == (hvd.size() if hvd.rank() == 0 else 0)
                state.params = step(state.params)
                state.step += 1
                state.commit()

        train(state)
        assert (state.params["w"] == 30).all(), state.params
        print("ended with", hvd.size(), flush=True)
        """
    job = processes.launch(tmp_path, 3, body, "--min-np", "2", "--max-np", "3")
    # The launcher starts the killed one again, which may come before the end.
    assert job.lines("ended with ") in (["2"] * 2, ["3"] * 3), job.report()


@pytest.mark.parametrize("where", ["at once", "compiled", "after another handler"])
def test_an_interrupt_ends_a_call_that_waits(tmp_path: Path, where: str) -> None:
    body = f"""
        hvd.init()
        wrap = (lambda function: function) if {where!r} == "at once" else jax.jit
        step = wrap(lambda x: hvd.allreduce(x, hvd.Sum, name="x"))
        jax.block_until_ready(step(jnp.ones(10)))
        if hvd.rank() == 0:
            time.sleep(5)
            sys.exit(0)
        if {where!r} == "after another handler":
            signal.signal(signal.SIGINT, signal.default_int_handler)
        begin = time.monotonic()
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            jax.block_until_ready(step(jnp.ones(10)))
            print("no interrupt", flush=True)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begin, flush=True)
        os._exit(0)
        """
    job = processes.launch(tmp_path, 2, body)
    after = job.lines("interrupted ")
    assert len(after) == 1 and float(after[0]) < 3.0, job.report()


def test_sigterm_ends_a_compiled_call_that_waits(tmp_path: Path) -> None:
    body = """
        hvd.init()
        step = jax.jit(lambda x: hvd.allreduce(x, hvd.Sum, name="x"))
        jax.block_until_ready(step(jnp.ones(10)))
        if hvd.rank() == 0:
            print("begin", time.monotonic(), flush=True)
            time.sleep(60)
        threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        jax.block_until_ready(step(jnp.ones(10)))
        """
    with processes.Stopwatch() as watch:
        job = processes.launch(tmp_path, 2, body)
        # With the import of JAX, and less than the other rank sleeps.
        assert watch.seconds < 50, job.report()
    assert "SIGTERM" in job.stderr or "signal 15" in job.stderr, job.report()


def test_other_front_ends_load_nothing_of_jax() -> None:
    script = "import sys, farandole.core.collectives, farandole.elastic, farandole.library.abi as abi; abi.load()\n"
    script += "assert not {name.split('.')[0] for name in sys.modules} & {'jax', 'jaxlib', 'numpy'}\n"
    script += "assert 'libfarandole_jax' not in open('/proc/self/maps').read()\n"
    environment = {**os.environ, "PYTHONPATH": str(processes.ROOT / "python")}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env=environment)


EXAMPLES = [
    ("jax_images.py", "--epochs 1 --fp16-allreduce", r"test accuracy (0\.9\d+|1\.0+), processes 2"),
    ("jax_elastic.py", "--steps 100 --pause 0", r"slope 3\.000, offset 1\.000, processes 2"),
]


@pytest.mark.parametrize(("name", "arguments", "result"), EXAMPLES)
def test_examples(tmp_path: Path, name: str, arguments: str, result: str) -> None:
    script = str(processes.ROOT / "examples" / name)
    command = processes.launch_command(2, sys.executable, script, *arguments.split())
    with processes.running(command, tmp_path) as job:
        assert job.wait() == 0 and re.search(result, job.stdout), job.report()


def test_the_script_of_the_docs(tmp_path: Path) -> None:
    """With a model of its own, for which the page has only names."""
    ((_, script),) = pages.blocks(pages.DOCS / "jax.md", "python")
    model = """
import jax.numpy as jnp

def init_params(key):
    return {"w": jax.random.normal(key, (3,))}

def loss_of(params, x, y):
    return ((x @ params["w"] - y) ** 2).mean()
"""
    steps = """
x = jax.random.normal(jax.random.key(hvd.rank()), (16, 3))
losses = []
for _ in range(20):
    params, state, loss = step(params, state, x, x.sum(1))
    losses.append(float(hvd.allreduce(loss)))
assert losses == sorted(losses, reverse=True), losses
print("trained", flush=True)
"""
    path = tmp_path / "train.py"
    path.write_text(model.replace("import jax.numpy", "import jax\nimport jax.numpy") + script + steps)
    with processes.running(processes.launch_command(2, sys.executable, str(path)), tmp_path) as job:
        assert job.wait() == 0 and job.stdout.count("trained") == 2, job.report()
