"""The C ABI of libfarandole.so (frameworks/c_api.h). No other module of the package loads a library."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int64, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any

from farandole.base import locate
from farandole.version import __version__

OK = 0
PENDING = 1
INVALID_ARGUMENT = -1
NOT_INITIALIZED = -2
DUPLICATE_NAME = -3
MISMATCH = -4
PEER_LOST = -5
SHUT_DOWN = -6
FORKED = -7
TIMEOUT = -8
UNAVAILABLE = -9
REFUSED = -10
INTERNAL = -11
RETIRED = -12
UNSUPPORTED = -13
NO_MEMORY = -14

DIMENSIONS_MAX = 64
# Blocking calls return to Python this often, so that signal handlers run.
SLICE_MS = 50

_SHAPE = POINTER(c_int64)
RECLAIM = ctypes.CFUNCTYPE(None, c_int)
# Calls that may wait release the interpreter's lock, all others keep it: they take no longer than releasing it would.
_WAITING = {
    "farandole_init_begin": (c_int, []),
    "farandole_init_poll": (c_int, [c_int]),
    "farandole_init_cancel": (c_int, []),
    "farandole_shutdown_begin": (c_int, []),
    "farandole_shutdown_poll": (c_int, [c_int]),
    "farandole_wait": (c_int, [c_int64, c_int]),
    "farandole_wait_on_stream": (c_int, [c_int64, c_void_p, c_int]),
    "farandole_wait_each": (c_int, [c_void_p, c_int, c_void_p, c_int]),
    "farandole_start_timeline": (c_int, [c_char_p, c_int]),
    "farandole_stop_timeline": (c_int, []),
    "farandole_result_copy": (c_int, [c_int64, c_void_p, c_int64]),
    "farandole_callbacks_withdraw": (c_int, [c_int, c_int]),
    "farandole_memory_allocate": (c_int, [c_uint32, c_int64, POINTER(c_void_p)]),
    "farandole_gpu_failure": (c_char_p, []),
    "farandole_gpu_set_reclaim": (c_int, [RECLAIM, c_int]),
    "farandole_gpu_library": (c_int, [c_int, c_char_p, POINTER(c_int), POINTER(c_char_p)]),
    "farandole_rdma_ports": (c_int, [POINTER(c_char_p)]),
}
_QUICK = {
    "farandole_version": (c_char_p, []),
    "farandole_last_error": (c_char_p, []),
    "farandole_is_initialized": (c_int, []),
    "farandole_rank": (c_int, []),
    "farandole_size": (c_int, []),
    "farandole_local_rank": (c_int, []),
    "farandole_local_size": (c_int, []),
    "farandole_cross_rank": (c_int, []),
    "farandole_cross_size": (c_int, []),
    "farandole_is_homogeneous": (c_int, []),
    "farandole_membership_changes": (c_int, [POINTER(c_int64), POINTER(c_int64)]),
    "farandole_confirm_state": (c_int, []),
    "farandole_submit": (c_int, [c_char_p, c_int, c_void_p, POINTER(c_int64)]),
    "farandole_callbacks_begin": (c_int, []),
    "farandole_add_process_set": (c_int64, [c_int, POINTER(c_int)]),
    "farandole_remove_process_set": (c_int64, [c_uint32]),
    "farandole_process_set_size": (c_int, [c_uint32]),
    "farandole_process_set_rank": (c_int, [c_uint32]),
    "farandole_process_set_included": (c_int, [c_uint32]),
    "farandole_process_set_ranks": (c_int, [c_uint32, POINTER(c_int)]),
    "farandole_result_value": (c_int, [c_int64, POINTER(c_int64)]),
    "farandole_result_splits": (c_int, [c_int64, _SHAPE]),
    "farandole_result_shape": (c_int, [c_int64, POINTER(c_int), _SHAPE]),
    "farandole_result_copy_on_stream": (c_int, [c_int64, c_void_p, c_int64, c_void_p]),
    "farandole_release": (c_int, [c_int64]),
    "farandole_release_each": (c_int, [POINTER(c_int64), c_int]),
    "farandole_memory_free": (c_int, [c_void_p]),
}


class Library:
    """The functions of the C ABI as attributes, without their prefix, with prototypes set."""

    def __init__(self, path: str) -> None:
        self.path = path
        for loader, functions in ((ctypes.CDLL, _WAITING), (ctypes.PyDLL, _QUICK)):
            library = loader(path)
            for name, (result, arguments) in functions.items():
                function = getattr(library, name)
                function.restype = result
                function.argtypes = arguments
                setattr(self, name[len("farandole_") :], function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def error_text(self) -> str:
        """Sentence about the last failed call of this thread."""
        return self.last_error().decode("utf-8", "replace")

    def result_dimensions(self, handle: int) -> Sequence[int]:
        """Shape of the result of an allgather or alltoall that is done."""
        count = c_int()
        shape = (c_int64 * DIMENSIONS_MAX)()
        if self.result_shape(handle, ctypes.byref(count), shape) != OK:
            raise RuntimeError(self.error_text())
        return list(shape[: count.value])


def c_function(name: str) -> Callable[..., int] | None:
    """A function of the C library of this process; None: it has none of that name."""
    return getattr(ctypes.CDLL(None), name, None)


def shape_array(shape: Sequence[int]) -> ctypes.Array[c_int64]:
    """`shape` as the C ABI takes it. Reusable; the library copies it."""
    return (c_int64 * len(shape))(*shape)


_library: Library | None = None
_lock = threading.Lock()


def loaded() -> Library | None:
    """The library if it has been loaded; never loads it."""
    return _library


def load() -> Library:
    """Loads the library once.

    Raises:
        ImportError: it is missing, cannot be loaded, or is of another release than the package.
    """
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _open()
    return _library


# Whether SIGTERM is handled by us, and ends the process.
ends_on_sigterm = False
# As frameworks/plugin/core_functions.h has them.
_CORE_FUNCTIONS = (
    "submit",
    "wait",
    "release",
    "last_error",
    "shutdown_begin",
    "result_splits",
    "size",
    "rank",
    "local_size",
    "local_rank",
    "process_set_size",
    "process_set_rank",
    "process_set_included",
)


def load_plugin(name: str, bind: str, calls_python: bool = False) -> ctypes.CDLL:
    """Loads a library of ours that a framework calls. It is given functions of the C ABI, and finds nothing itself.

    Args:
        name: of its file.
        bind: the function of it that takes pointers to functions of the C ABI, and copies them.
        calls_python: its functions do, and so need Python's lock.

    Raises:
        ImportError: it is missing or cannot be loaded.
    """
    ours = load()
    try:
        plugin = (ctypes.PyDLL if calls_python else ctypes.CDLL)(locate.find(name))
    except OSError as error:
        raise ImportError(f"farandole cannot load its library: {error}") from None
    addresses = [ctypes.cast(getattr(ours, function), c_void_p).value for function in _CORE_FUNCTIONS]
    getattr(plugin, bind)((c_void_p * (len(addresses) + 1))(*addresses, int(ends_on_sigterm)))
    return plugin


def _open() -> Library:
    try:
        library = Library(locate.find("libfarandole.so"))
    except (OSError, AttributeError) as error:
        raise ImportError(f"farandole cannot load its library: {error}") from None
    version = library.version().decode()
    if version != __version__:
        raise ImportError(
            f"farandole {__version__} found {library.path} of release {version}; install both from one release"
        )
    return library
