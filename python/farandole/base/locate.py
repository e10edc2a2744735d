"""Finds the files that are not Python: beside the package in a wheel, under bazel-bin in a source tree."""

from __future__ import annotations

import os

# Folder of the package.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SOURCE_BIN = os.path.join(os.path.dirname(os.path.dirname(PACKAGE)), "bazel-bin")

# name: (variable that overrides, folder in the package, folder under bazel-bin)
_FILES = {
    "libfarandole.so": ("FARANDOLE_LIBRARY_DIR", "lib", "frameworks"),
    "libfarandole_jax.so": ("FARANDOLE_LIBRARY_DIR", "lib", "frameworks/jax"),
    "libfarandole_mxnet.so": ("FARANDOLE_LIBRARY_DIR", "lib", "frameworks/mxnet"),
    "libfarandole_tensorflow.so": ("FARANDOLE_LIBRARY_DIR", "lib", "frameworks/tensorflow"),
    "libfarandole_torch.so": ("FARANDOLE_LIBRARY_DIR", "lib", "frameworks/torch"),
    "farandole-controller": ("FARANDOLE_BIN_DIR", "bin", "controller"),
    "farandole-agent": ("FARANDOLE_BIN_DIR", "bin", "agent"),
    "farandole-perf": ("FARANDOLE_BIN_DIR", "bin", "perf"),
}


def candidates(name: str) -> list[str]:
    """Paths at which `name` may lie, the preferred one first."""
    variable, in_package, in_source = _FILES[name]
    override = os.environ.get(variable)
    if override:
        return [os.path.join(override, name)]
    return [os.path.join(PACKAGE, in_package, name), os.path.join(_SOURCE_BIN, in_source, name)]


def find(name: str) -> str:
    """Path of a file of ours.

    Raises:
        FileNotFoundError: with a sentence that lists where it was looked for.
    """
    paths = candidates(name)
    for path in paths:
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(
        f"{name} was not found at {' or '.join(paths)}; install the wheel, or run 'make build' in a source tree, "
        f"or set {_FILES[name][0]} to the folder that holds it"
    )
