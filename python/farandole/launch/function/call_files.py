"""How a function gets to the processes of ``farandole.run``, and what comes back: files of a private folder.

Only the user who runs it can have written what is unpickled here: the folder has mode 0700 and is his. On another host
it lies at the same place; what is in it goes there and comes back through ssh (remote.py).
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import cloudpickle

from farandole.base.private import is_private
from farandole.exceptions import PeerLostError

CALL = "call"
_RESULT = re.compile(r"(result|failure)\.-?\d+")


@dataclass(frozen=True)
class Failure:
    """What ended the function in one process.

    Attributes:
        rank: of the process; -1 if it had none.
        summary: one line, class and text of the exception.
        traceback: its traceback, as text.
        consequence: it only tells that another process was lost.
        when: by its host's clock, in nanoseconds since 1970.
    """

    rank: int
    summary: str
    traceback: str
    consequence: bool
    when: int


@contextmanager
def new_folder() -> Iterator[str]:
    """A new folder below $TMPDIR or /tmp; removed at the end with all that is in it."""
    path = tempfile.mkdtemp(prefix="farandole-function-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _write(path: str, content: bytes) -> None:
    """Whole or not at all."""
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "xb") as file:
        file.write(content)
    os.rename(unfinished, path)


def write_call(folder: str, call: tuple[Any, ...]) -> None:
    """Leaves a function, its arguments, and what else the processes need, for `read_bytes`."""
    _write(os.path.join(folder, CALL), cloudpickle.dumps(call))


def read_bytes(folder: str) -> bytes:
    """What `write_call` has pickled.

    Raises:
        PermissionError: somebody else could have written it.
    """
    if not is_private(folder):
        raise PermissionError(f"{folder} is not a folder that only this user may look into")
    with open(os.path.join(folder, CALL), "rb") as file:
        return file.read()


def folder_request(folder: str) -> dict[str, str]:
    """What another host needs for `make_folder`."""
    return {"folder": folder, "call": base64.b64encode(read_bytes(folder)).decode()}


def make_folder(request: Mapping[str, str]) -> bool:
    """Leaves what another host has pickled, for `read_bytes`. Whether the folder had to be made.

    Raises:
        OSError: there is no folder to make it in; it is somebody else's.
    """
    folder = request["folder"]
    try:
        os.mkdir(folder, 0o700)
    except FileNotFoundError:
        parent = os.path.dirname(folder)
        raise FileNotFoundError(f"there is no folder {parent} there: set TMPDIR to one that all hosts have") from None
    except FileExistsError:
        read_bytes(folder)
        return False
    _write(os.path.join(folder, CALL), base64.b64decode(request["call"]))
    return True


def take_all(folder: str) -> dict[str, bytes]:
    """All results and failures by their names; the folder is gone then."""
    files = {}
    for name in filter(_RESULT.fullmatch, os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()
    shutil.rmtree(folder, ignore_errors=True)
    return files


def write_file(folder: str, name: str, content: bytes) -> None:
    """Leaves a result or a failure that another host has taken."""
    if _RESULT.fullmatch(name):
        _write(os.path.join(folder, name), content)


def write_result(folder: str, rank: int, pickled: bytes) -> None:
    """Leaves what the function has returned in this process."""
    _write(os.path.join(folder, f"result.{rank}"), pickled)


def write_failure(folder: str, rank: int, error: BaseException) -> None:
    """Leaves what the function has raised in this process, without the frames of the file that caught it."""
    inner = error.__traceback__
    ours = inner.tb_frame.f_code.co_filename if inner is not None else ""
    while inner is not None and inner.tb_frame.f_code.co_filename == ours:
        inner = inner.tb_next
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    failure = Failure(
        rank,
        summary,
        "".join(traceback.format_exception(type(error), error, inner)),
        isinstance(error, PeerLostError),
        time.time_ns(),
    )
    _write(os.path.join(folder, f"failure.{rank}"), json.dumps(asdict(failure)).encode())


def ranks_without_result(folder: str, processes: int) -> list[int]:
    """Those of `processes` ranks that have left none."""
    return [rank for rank in range(processes) if not os.path.exists(os.path.join(folder, f"result.{rank}"))]


def read_result(folder: str, rank: int) -> Any:
    """What this rank has left."""
    with open(os.path.join(folder, f"result.{rank}"), "rb") as file:
        return pickle.load(file)


def read_failures(folder: str) -> list[Failure]:
    """What went wrong, the cause before its consequences."""
    found = []
    for name in os.listdir(folder):
        if re.fullmatch(r"failure\.-?\d+", name):
            with open(os.path.join(folder, name), "rb") as file:
                found.append(Failure(**json.load(file)))
    return sorted(found, key=lambda failure: (failure.consequence, failure.when))
