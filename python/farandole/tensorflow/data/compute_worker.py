"""The job that computes batches for another one, by tf.data's service:

farandole run -np 4 python -m farandole.tensorflow.data.compute_worker --dispatchers 1 compute.json
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile

from farandole.core.collectives import barrier
from farandole.core.objects import broadcast_object
from farandole.process import basics
from farandole.session import init
from farandole.tensorflow.data.compute_service import TfDataServiceConfig, compute_worker_fn


def main(dispatchers: int, dispatcher_side: str, configfile: str, timeout: int) -> None:
    """Runs on each rank, until the training calls `compute_client().shutdown()`.

    Args:
        dispatchers: how many; the number of ranks is a multiple of it.
        dispatcher_side: "compute" or "training".
        configfile: the file for `TfDataServiceConfig.read`, which the other job sees, too. It is gone at the end.
        timeout: seconds that each wait for the other job may last.

    Raises:
        ValueError: a wrong argument.
        TimeoutError: the other job's dispatchers have not come in time.
    """
    init.init()
    size = basics.size()
    if dispatchers < 1 or size % dispatchers != 0:
        raise ValueError(f"{size} ranks cannot be divided among {dispatchers} dispatchers; start a multiple of them")
    path, folder = os.path.abspath(configfile), ""
    try:
        if basics.rank() == 0:
            folder = tempfile.mkdtemp(prefix=f"{os.path.basename(path)}.", dir=os.path.dirname(path))
        folder = broadcast_object(folder)
        config = TfDataServiceConfig(
            dispatchers, size // dispatchers, dispatcher_side, {"folder": [folder]}, b"", timeout
        )
        if basics.rank() == 0:
            config.write(path)
        compute_worker_fn(config)
        barrier()
    finally:
        if basics.rank() == 0 and folder:
            shutil.rmtree(folder, ignore_errors=True)
            if os.path.exists(path):
                os.unlink(path)
    init.shutdown()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configfile", help="file that tells the training where this is; both jobs see it")
    parser.add_argument("--dispatchers", type=int, default=1, help="each has as many of the processes")
    parser.add_argument(
        "--dispatcher-side", choices=["compute", "training"], default="compute", help="the job that runs them"
    )
    parser.add_argument("--timeout", type=int, default=60, metavar="SECONDS", help="for each wait for the other job")
    return parser.parse_args()


if __name__ == "__main__":
    args = _parse()
    main(args.dispatchers, args.dispatcher_side, args.configfile, args.timeout)
