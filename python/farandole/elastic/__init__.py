"""Training that goes on when workers are lost, leave or come. What a framework adds is in ``farandole.torch.elastic``.

docs/elastic.md says what a script has to do. Importing this loads no framework.
"""

from farandole.elastic.loop import run, run_fn
from farandole.elastic.sampler import ElasticSampler
from farandole.elastic.state import HostUpdateResult, ObjectState, State
from farandole.exceptions import HorovodInternalError, HostsUpdatedInterrupt, WorkerRetiredError

__all__ = [
    "ElasticSampler",
    "HorovodInternalError",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "WorkerRetiredError",
    "run",
    "run_fn",
]
