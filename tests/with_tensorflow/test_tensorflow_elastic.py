"""Elastic training with TensorFlow: a worker is killed, the others go on, and another one comes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorflow_jobs import launch

# Steps until the job has its size again; every third one is committed. A worker is killed two steps after a commit, so
# that the others have to undo something. What a worker has committed it must find again.
TRAIN = """
import numpy as np

MAKE

committed = 0

@hvd.elastic.run
def train(state):
    global committed
    print("turn", hvd.size(), state.step, flush=True)
    assert state.step >= committed, (state.step, committed)
    check(state)
    first = state.step == 0
    while state.step < 30 or (hvd.size() < 3 and state.step < 3000):
        if state.step == 11 and first and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        step(state)
        state.step += 1
        state.seen.append(state.step)
        if state.step % 3 == 0:
            state.commit()
            committed = state.step
        time.sleep(0.01)

train(state)
check(state)
assert state.seen == list(range(1, state.step + 1))
print("ended", hvd.size(), state.step, flush=True)
hvd.shutdown()
"""

EAGER = """
weight = tf.Variable(np.zeros(3))
add = tf.function(lambda: weight.assign_add(hvd.allreduce(tf.ones([3], tf.float64), name="ones")))
state = hvd.elastic.TensorFlowState([weight], step=0, seen=[])

def step(state):
    add()

def check(state):
    assert (weight.numpy() == state.step).all(), (weight, state.step)
"""

COMPILED = EAGER.replace('name="ones"))', 'name="ones")), jit_compile=True')

SESSION = """
v1 = tf.compat.v1
with tf.Graph().as_default():
    weight = v1.get_variable("weight", initializer=np.zeros(3))
    optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), op=hvd.Average)
    train_op = optimizer.minimize(-tf.reduce_sum(weight), global_step=v1.train.get_or_create_global_step())
    session = v1.Session()
    session.run(v1.global_variables_initializer())
    state = hvd.elastic.TensorFlowState(session=session, step=0, seen=[])
    number = v1.train.get_global_step()

def step(state):
    session.run(train_op)

def check(state):
    assert (session.run(weight) == state.step).all() and session.run(number) == state.step, session.run(weight)
"""

# Plain gradients: the optimizer of Keras is tests/with_keras' subject.
KERAS = """
model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(2), hvd.SyncBatchNormalization()])
model.compile(optimizer=tf.keras.optimizers.Adam(0.01))
state = hvd.elastic.TensorFlowKerasState(model, step=0, seen=[])

@tf.function
def fit(x):
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_mean(model(x, training=True) ** 2)
    model.optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

def step(state):
    fit(tf.random.stateless_normal([3, 4], [state.step, hvd.rank()]))

def check(state):
    assert int(model.optimizer.iterations.numpy()) == state.step
    sums = [float(tf.reduce_sum(tf.cast(tf.convert_to_tensor(v), tf.float64))) for v in model.trainable_variables]
    assert hvd.broadcast_object(sums, name="sums") == sums
"""


@pytest.mark.parametrize("make", [EAGER, COMPILED, SESSION, KERAS], ids=["eager", "compiled", "session", "keras"])
def test_no_commit_is_lost_when_a_worker_is_killed(tmp_path: Path, make: str) -> None:
    options = ("--min-np", "2", "--max-np", "3", "-H", "localhost:4")
    job = launch(tmp_path, 3, TRAIN.replace("MAKE", make), *options)
    assert job.process.returncode == 0, job.report()
    turns = [tuple(map(int, line.split())) for line in job.lines("turn ")]
    # The two that are left begin at the last commit; the new one where they are then.
    assert turns[:3] == [(3, 0)] * 3, job.report()
    assert turns[3:5] == [(2, 9)] * 2 and len(turns) > 5, job.report()
    assert all(step >= 9 for _, step in turns[5:]), job.report()
    assert len(job.lines("ended 3 ")) == 3, job.report()
    assert "going back to the last commit" in job.stderr, job.report()


def test_what_a_state_refuses(tmp_path: Path) -> None:
    script = """
for text, make in (
    ("needs variables", lambda: hvd.elastic.TensorFlowState(step=0)),
    ("has no weights", lambda: hvd.elastic.TensorFlowKerasState(tf.keras.Sequential([tf.keras.layers.Dense(1)]))),
    ("cannot be copied", lambda: hvd.elastic.TensorFlowState([tf.Variable(1.0)], lock=threading.Lock())),
):
    try:
        make()
    except (ValueError, TypeError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
variable = tf.Variable([1.0] * (1 + hvd.rank()))
try:
    hvd.elastic.TensorFlowState([variable]).sync()
except ValueError as error:
    print("refused", error, flush=True)

@hvd.elastic.run
def train(state):
    raise tf.errors.UnknownError(None, None, "something else")

try:
    train(hvd.elastic.TensorFlowState([tf.Variable(1.0)]))
except tf.errors.UnknownError as error:
    print("raised", error.message, flush=True)
"""
    job = launch(tmp_path, 2, script)
    assert job.process.returncode == 0, job.report()
    assert len(job.lines("refused rank 0 has 1 variables")) == 2, job.report()
    assert job.lines("raised ") == ["something else"] * 2, job.report()
