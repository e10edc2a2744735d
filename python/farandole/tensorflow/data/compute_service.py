"""tf.data's service between two jobs: one computes batches, the other one trains with them. They meet in a folder of a
file system that both see; tf.data itself connects them, without encryption or authentication.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from farandole.process import basics

# Between looks into the folder.
_PAUSE_S = 0.1
# Datasets that ranks share are known by their order, which is the same on all of them.
_shared = itertools.count()


def _own_host() -> str:
    """The name of this host, as far as it means one of its addresses."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and for its owner only."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def _await(path: Path, timeout: float, what: str) -> str:
    deadline = time.monotonic() + timeout
    while True:
        try:
            return path.read_text()
        except FileNotFoundError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} was not there after {timeout} s; looked for {path}") from None
        time.sleep(_PAUSE_S)


class ComputeClient:
    """What both jobs tell each other.

    Args:
        folder: where.
        timeout: seconds that each wait may last.
    """

    def __init__(self, folder: str, timeout: float) -> None:
        self._folder = Path(folder)
        self._timeout = timeout

    def register_dispatcher(self, dispatcher_id: int, dispatcher_address: str) -> None:
        """Says that a dispatcher runs at grpc://host:port."""
        _write(self._folder / f"dispatcher_{dispatcher_id}", dispatcher_address)

    def wait_for_dispatcher_registration(self, dispatcher_id: int, timeout: float | None = None) -> str:
        """The address of a dispatcher. Raises TimeoutError if there is none in time."""
        path = self._folder / f"dispatcher_{dispatcher_id}"
        return _await(path, self._timeout if timeout is None else timeout, f"dispatcher {dispatcher_id} of tf.data")

    def register_worker_for_dispatcher(self, dispatcher_id: int, worker_id: int) -> None:
        """Says that a worker of a dispatcher runs."""
        _write(self._folder / f"worker_{dispatcher_id}_{worker_id}", "")

    def wait_for_dispatcher_worker_registration(
        self, dispatcher_id: int, workers: int, timeout: float | None = None
    ) -> None:
        """Waits until the first `workers` of a dispatcher run. Raises TimeoutError if not in time."""
        limit = self._timeout if timeout is None else timeout
        for worker in range(workers):
            path = self._folder / f"worker_{dispatcher_id}_{worker}"
            _await(path, limit, f"worker {worker} of dispatcher {dispatcher_id} of tf.data")

    def shutdown(self) -> None:
        """Has the job that computes end."""
        if self._folder.exists():
            _write(self._folder / "shutdown", "")

    def wait_for_shutdown(self) -> None:
        """Waits, without a limit, until somebody has called `shutdown` or the folder is gone."""
        while self._folder.exists() and not (self._folder / "shutdown").exists():
            time.sleep(_PAUSE_S)


@dataclass(frozen=True)
class TfDataServiceConfig:
    """How the two jobs find each other.

    Attributes:
        dispatchers: how many there are.
        workers_per_dispatcher: processes of the job that computes, for each.
        dispatcher_side: "compute" or "training": the job whose first ranks run the dispatchers.
        addresses: {"folder": [path]}: where both jobs write and read.
        key: not used; Horovod has it.
        timeout: seconds that each wait for the other job may last.
    """

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: dict[str, list[Any]]
    key: bytes
    timeout: int = 60

    def __post_init__(self) -> None:
        if self.dispatcher_side not in ("compute", "training"):
            raise ValueError(f'dispatcher_side is "compute" or "training", got {self.dispatcher_side!r}')
        if self.dispatchers < 1 or self.workers_per_dispatcher < 1:
            counts = f"dispatchers={self.dispatchers} and workers_per_dispatcher={self.workers_per_dispatcher}"
            raise ValueError(f"{counts} must be positive")

    def compute_client(self, verbose: int = 1) -> ComputeClient:
        """For `shutdown()`, at the end of the training. `verbose`: not used; Horovod has it."""
        return ComputeClient(self.addresses["folder"][0], self.timeout)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "key": base64.b64encode(self.key).decode()}

    @staticmethod
    def from_dict(config: dict[str, Any]) -> TfDataServiceConfig:
        """The config whose `to_dict` this is."""
        return TfDataServiceConfig(**{**config, "key": base64.b64decode(config["key"])})

    def write(self, filename: str) -> None:
        """Writes it to a file, which appears at once and whole."""
        _write(Path(filename).absolute(), json.dumps(self.to_dict()))

    @staticmethod
    def read(filename: str, wait_for_file_creation: bool = False) -> TfDataServiceConfig:
        """The config of a file.

        Args:
            wait_for_file_creation: waits for it, without a limit.
        """
        while wait_for_file_creation and not os.path.exists(filename):
            time.sleep(_PAUSE_S)
        return TfDataServiceConfig.from_dict(json.loads(Path(filename).read_text()))


def _start_dispatcher(compute_config: TfDataServiceConfig, number: int) -> Any:
    service = tf.data.experimental.service
    server = service.DispatchServer(service.DispatcherConfig(port=0))
    protocol, _, place = server.target.partition("://")
    port = place.rpartition(":")[2]
    compute_config.compute_client().register_dispatcher(number, f"{protocol}://{_own_host()}:{port}")
    return server


@contextmanager
def tf_data_service(compute_config: TfDataServiceConfig, rank: int) -> Iterator[str]:
    """The address of this rank's dispatcher, grpc://host:port, for `tf.data.experimental.service.distribute`. With
    dispatchers on the side of the training the first ranks run one each, until the context ends.

    Args:
        rank: of the job that trains.

    Raises:
        TimeoutError: the job that computes has not come in time.
    """
    client, number = compute_config.compute_client(), rank % compute_config.dispatchers
    # A server that nobody refers to stops.
    server = None
    if compute_config.dispatcher_side == "training" and rank < compute_config.dispatchers:
        server = _start_dispatcher(compute_config, number)
    address = client.wait_for_dispatcher_registration(number)
    client.wait_for_dispatcher_worker_registration(number, compute_config.workers_per_dispatcher)
    yield address
    del server


def send_to_data_service(
    dataset: Any,
    compute_config: TfDataServiceConfig,
    rank: int,
    size: int | None = None,
    processing_mode: str = "distributed_epoch",
    reuse_dataset: bool = False,
    round_robin: bool = False,
) -> Any:
    """A tf.data.Dataset whose elements the other job computes. Also a method of tf.data.Dataset, once this module is
    imported.

    Args:
        dataset: the tf.data.Dataset to compute.
        rank, size: of the job that trains.
        processing_mode: of `tf.data.experimental.service.distribute`.
        reuse_dataset: ranks with the same dispatcher share the elements, each gets others. Otherwise each gets all.
        round_robin: with `reuse_dataset`: the ranks get elements in turns, so that each step has one for each.

    Raises:
        RuntimeError: the dispatchers are on the side of the training; use `tf_data_service`, which keeps them.
        TimeoutError: the job that computes has not come in time.
    """
    if compute_config.dispatcher_side == "training":
        raise RuntimeError(
            "dispatchers on the side of the training end with the context manager tf_data_service; use that instead"
        )
    in_turns = reuse_dataset and round_robin
    with tf_data_service(compute_config, rank) as address:
        return dataset.apply(
            tf.data.experimental.service.distribute(
                processing_mode=processing_mode,
                service=address,
                job_name=f"job_{next(_shared)}" if reuse_dataset else None,
                consumer_index=rank if in_turns else None,
                num_consumers=size if in_turns else None,
            )
        )


tf.data.Dataset.send_to_data_service = send_to_data_service


def compute_worker_fn(compute_config: TfDataServiceConfig) -> None:
    """What each rank of the job that computes does, until the other job calls `shutdown`: a worker of tf.data, and with
    dispatchers on this side the first ranks run one each.

    Raises:
        ValueError: not initialised.
        TimeoutError: a dispatcher has not come in time.
    """
    client, rank = compute_config.compute_client(), basics.rank()
    server = None
    if compute_config.dispatcher_side == "compute" and rank < compute_config.dispatchers:
        server = _start_dispatcher(compute_config, rank)
    number, worker_number = divmod(rank, compute_config.workers_per_dispatcher)
    address = client.wait_for_dispatcher_registration(number)
    service = tf.data.experimental.service
    worker = service.WorkerServer(
        service.WorkerConfig(
            dispatcher_address=address.partition("://")[2], worker_address=f"{_own_host()}:%port%", port=0
        )
    )
    client.register_worker_for_dispatcher(number, worker_number)
    client.wait_for_shutdown()
    del worker, server
