"""``--check-build``: what of Farandole was found here, and why something was not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator

from farandole.base import locate
from farandole.library import gpus, rdma
from farandole.version import __version__

# name: (module of the framework, its distribution, our front end for it)
FRAMEWORKS = {
    "PyTorch": ("torch", "torch", "farandole.torch"),
    "TensorFlow": ("tensorflow", "tensorflow", "farandole.tensorflow"),
    "Keras": ("keras", "keras", "farandole.keras"),
    "MXNet": ("mxnet", "mxnet", "farandole.mxnet"),
    "JAX": ("jax", "jax", "farandole.jax"),
}
PROGRAMS = ("libfarandole.so", "farandole-controller", "farandole-agent", "farandole-perf")
PROGRAM_S = 10.0


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _framework(module: str, distribution: str, front_end: str) -> tuple[bool, str]:
    """Nothing is imported: that takes seconds, and may fail for reasons of its own."""
    ours, theirs = _has(front_end), _has(module)
    try:
        version = importlib.metadata.version(distribution) if theirs else ""
    except importlib.metadata.PackageNotFoundError:
        version = "of unknown version"
    if not ours:
        return False, f"this release has no {front_end}"
    return (True, f"{module} {version}") if theirs else (False, f"no module {module} in this Python")


def _program(name: str) -> tuple[bool, str]:
    try:
        path = locate.find(name)
        if not name.endswith(".so"):
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=PROGRAM_S)
            if done.returncode:
                return False, f"{path} does not start: {(done.stderr or done.stdout).strip().splitlines()[:1]}"
        return True, path
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)


def _shared_memory() -> tuple[bool, str]:
    try:
        os.close(os.memfd_create("farandole-check"))
    except OSError as error:
        return False, f"memfd_create: {error.strerror}"
    return True, "between ranks of one host"


def _cuda() -> tuple[bool, str]:
    driver, devices = gpus.cuda_driver(), gpus.cuda_devices()
    return devices.used, _told(devices, f"{driver.text} is here, with {devices.text}")


def _nccl() -> tuple[bool, str]:
    found = gpus.nccl()
    return found.used, _told(found, f"{found.text} is here")


def _told(found: gpus.Found, text: str) -> str:
    if not found.number:
        return found.text
    return text if found.used else f"{text}, but this build of Farandole has no kernels for GPUs"


def _of_library(ask: Callable[[], tuple[bool, str]]) -> tuple[bool, str]:
    """What needs libfarandole.so, whose absence is told elsewhere, too."""
    try:
        return ask()
    except ImportError as error:
        return False, str(error)


def _verbs() -> tuple[bool, str]:
    wanted = os.environ.get("FARANDOLE_TRANSPORT", "auto")
    if wanted not in ("auto", "verbs"):
        return False, f"not with FARANDOLE_TRANSPORT={wanted}"
    found = rdma.ports()
    return found.used, f"between hosts: {found.text}" if found.used else found.text


def _lines() -> Iterator[str]:
    yield f"Farandole v{__version__}:"
    transports = {
        "shared memory": _shared_memory(),
        "TCP": (True, "between hosts"),
        "verbs": _of_library(_verbs),
        "CUDA": _of_library(_cuda),
        "NCCL": _of_library(_nccl),
    }
    ssh = next((f"{d}/ssh" for d in os.get_exec_path() if os.access(f"{d}/ssh", os.X_OK)), "")
    sections = {
        "Available Frameworks": {name: _framework(*names) for name, names in FRAMEWORKS.items()},
        "Available Controllers": {
            "Farandole": (True, "one for every framework"),
            "MPI": (False, "not used; processes that mpirun started find the controller by themselves"),
            "Gloo": (False, "not used"),
        },
        "Available Tensor Operations": transports,
        "Files": {name: _program(name) for name in PROGRAMS},
        "Other Hosts": {"ssh": (bool(ssh), ssh or "no ssh on the PATH")},
    }
    for title, entries in sections.items():
        yield f"\n{title}:"
        for name, (found, why) in entries.items():
            yield f"    [{'X' if found else ' '}] {name}: {why}"


def text() -> str:
    """The report; a line for each thing."""
    return "\n".join(_lines()) + "\n"
