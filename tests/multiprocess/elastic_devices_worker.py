"""An elastic job on fakes of the CUDA driver and of NCCL. While its steps are replayed, one of three ranks is killed
(`killed`), its GPU fails for good (`lost`), or its NCCL has lost a connection (`cut`): the others have handed their
parts over, and go on with results that never come until a call of the package says so.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

# Ranks of one GPU, for NCCL on several hosts.
os.environ["NCCL_HOSTID"] = str(os.getpid())

from fake_devices import ALL, SUM, Array, collectives, cut_connections, fail_devices  # noqa: E402

from farandole import elastic  # noqa: E402
from farandole.core import handles  # noqa: E402
from farandole.core.objects import broadcast_object  # noqa: E402
from farandole.elastic.state import ObjectState  # noqa: E402
from farandole.process import basics  # noqa: E402
from farandole.session import init  # noqa: E402

COUNT = 100


def fails_now() -> bool:
    """For the last of three ranks, once in the job."""
    if basics.size() < 3 or basics.rank() != 2 or Path("failed").exists():
        return False
    Path("failed").touch()
    return True


print("began in", os.getpid(), flush=True)
init.init()
state = ObjectState(broadcast_object, basics.rank, step=0, summed=Array.of([0.0] * COUNT), ranks=0)


@elastic.run
def train(state: Any) -> None:
    # What was committed is what was summed.
    assert state.summed.tolist() == [float(state.ranks)] * COUNT, (state.step, state.ranks, state.summed.tolist()[:3])
    # It is a new communicator's time.
    cut_connections(False)
    while state.step < 60:
        ones = Array.of([1.0] * COUNT)
        if state.step == 30 and fails_now():
            if sys.argv[1] == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            fail_devices() if sys.argv[1] == "lost" else cut_connections(True)
        handles.finish(*collectives.allreduce(ones, True, "x", SUM, 1.0, 1.0, ALL))
        # One looks at each result, as an assertion of a script may. The state of another, the first, is what all get.
        if basics.rank() == 1:
            assert ones.tolist() == [float(basics.size())] * COUNT, ones.tolist()[:3]
        state.step, state.summed, state.ranks = state.step + 1, ones, basics.size()
        state.commit()


train(state)
print("ended with", basics.size(), "in", os.getpid(), flush=True)
init.shutdown()
