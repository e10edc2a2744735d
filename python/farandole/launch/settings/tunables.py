"""Flags that become a variable of the environment, or a key of the configuration file, and those without effect here.

Horovod's names are kept, also where nothing is left to choose: such a flag is accepted with a sentence that says why.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL")
Convert = Callable[[object], str]


def whole(maximum: int) -> Convert:
    """Takes a whole number from 0 to `maximum`."""

    def convert(value: object) -> str:
        text = str(value)
        if isinstance(value, bool) or not text.isdecimal() or int(text) > maximum:
            raise ValueError(f"{text!r} is not a whole number between 0 and {maximum}")
        return str(int(text))

    return convert


def real(maximum: float) -> Convert:
    """Takes a number from 0 to `maximum`."""

    def convert(value: object) -> str:
        try:
            number = math.nan if isinstance(value, bool) else float(str(value))
        except ValueError:
            number = math.nan
        if not 0 <= number <= maximum:
            raise ValueError(f"{str(value)!r} is not a number between 0 and {maximum:g}")
        return f"{number:g}"

    return convert


def mebibytes(value: object) -> str:
    """Bytes from a whole number of MiB."""
    return str(int(whole(65536)(value)) << 20)


def text(value: object) -> str:
    """Takes anything but nothing."""
    if value is None or not str(value):
        raise ValueError("is empty")
    return str(value)


def cores(value: object) -> str:
    """Takes core numbers with commas between them, one for each local rank."""
    for part in str(value).split(","):
        whole(65536)(part)
    return str(value)


def level(value: object) -> str:
    """Takes one of Horovod's levels."""
    if str(value).upper() not in LEVELS:
        raise ValueError(f"{str(value)!r} is not one of {', '.join(LEVELS)}")
    return str(value).upper()


def flag(value: object) -> str:
    """Takes yes or no."""
    words = {"true": "1", "yes": "1", "on": "1", "1": "1", "false": "0", "no": "0", "off": "0", "0": "0"}
    if str(value).lower() not in words:
        raise ValueError(f"{str(value)!r} is neither true nor false")
    return words[str(value).lower()]


def opposite(value: object) -> str:
    """Takes yes or no, and turns it round."""
    return "1" if flag(value) == "0" else "0"


@dataclass(frozen=True)
class Tunable:
    """One setting.

    Attributes:
        flags: spellings on the command line.
        variable: without FARANDOLE_ or HOROVOD_; also names it among the parsed arguments.
        convert: from what was given to the variable's value; raises ValueError.
        key: ``section.key`` of the configuration file.
        help: what it does.
        off: spellings of the opposite, for settings that are on or off.
        without_effect: why it has none here; it is then only passed on.
    """

    flags: tuple[str, ...]
    variable: str
    convert: Convert
    key: str
    help: str
    off: tuple[str, ...] = ()
    without_effect: str = ""

    @property
    def dest(self) -> str:
        """Its name among the parsed arguments."""
        return f"tunable_{self.variable}"


_HIERARCHY = (
    "whether ranks of one host are summed first is found out by itself; FARANDOLE_COMMUNICATOR=tcp turns it off"
)
_AUTOTUNE = "there is no polling cycle to tune: what is ready is executed as soon as the executors are free"
_NO_TIME = "log lines carry no time; --prefix-output-with-timestamp puts one before every line"

TUNABLES = (
    Tunable(
        ("--fusion-threshold-mb",),
        "FUSION_THRESHOLD",
        mebibytes,
        "params.fusion_threshold_mb",
        "MiB; tensors that are ready together are fused up to this size; 0: no fusion (128)",
    ),
    Tunable(
        ("--cycle-time-ms",),
        "CYCLE_TIME",
        real(60000),
        "params.cycle_time_ms",
        "milliseconds that a ready tensor may wait to be fused with others (0)",
    ),
    Tunable(
        ("--cache-capacity",),
        "CACHE_CAPACITY",
        whole(65536),
        "params.cache_capacity",
        "tensors per process set whose name and shape the controller caches; 0: none (1024)",
    ),
    Tunable(
        ("--hierarchical-allreduce",),
        "HIERARCHICAL_ALLREDUCE",
        flag,
        "params.hierarchical_allreduce",
        "without effect",
        ("--no-hierarchical-allreduce",),
        _HIERARCHY,
    ),
    Tunable(
        ("--hierarchical-allgather",),
        "HIERARCHICAL_ALLGATHER",
        flag,
        "params.hierarchical_allgather",
        "without effect",
        ("--no-hierarchical-allgather",),
        _HIERARCHY,
    ),
    Tunable(
        ("--torus-allreduce",),
        "TORUS_ALLREDUCE",
        flag,
        "params.torus_allreduce",
        "without effect",
        ("--no-torus-allreduce",),
        _HIERARCHY,
    ),
    Tunable(("--autotune",), "AUTOTUNE", flag, "autotune.enabled", "without effect", ("--no-autotune",), _AUTOTUNE),
    Tunable(("--autotune-log-file",), "AUTOTUNE_LOG", text, "autotune.log_file", "without effect", (), _AUTOTUNE),
    Tunable(
        ("--autotune-warmup-samples",),
        "AUTOTUNE_WARMUP_SAMPLES",
        whole(10**9),
        "autotune.warmup_samples",
        "without effect",
        (),
        _AUTOTUNE,
    ),
    Tunable(
        ("--autotune-steps-per-sample",),
        "AUTOTUNE_STEPS_PER_SAMPLE",
        whole(10**9),
        "autotune.steps_per_sample",
        "without effect",
        (),
        _AUTOTUNE,
    ),
    Tunable(
        ("--autotune-bayes-opt-max-samples",),
        "AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
        whole(10**9),
        "autotune.bayes_opt_max_samples",
        "without effect",
        (),
        _AUTOTUNE,
    ),
    Tunable(
        ("--autotune-gaussian-process-noise",),
        "AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
        real(1),
        "autotune.gaussian_process_noise",
        "without effect",
        (),
        _AUTOTUNE,
    ),
    Tunable(("--timeline-filename",), "TIMELINE", text, "timeline.filename", "file for a timeline, written by rank 0"),
    Tunable(
        ("--timeline-mark-cycles",),
        "TIMELINE_MARK_CYCLES",
        flag,
        "timeline.mark_cycles",
        "a mark in it at the beginning of each batch",
        ("--no-timeline-mark-cycles",),
    ),
    Tunable(
        ("--stall-check",),
        "STALL_CHECK_DISABLE",
        opposite,
        "stall_check.enabled",
        "warn of long waits for other ranks (the default)",
        ("--no-stall-check",),
    ),
    Tunable(
        ("--stall-check-warning-time-seconds",),
        "STALL_CHECK_TIME_SECONDS",
        whole(10**9),
        "stall_check.warning_time_seconds",
        "after so many seconds; 0: never (60)",
    ),
    Tunable(
        ("--stall-check-shutdown-time-seconds",),
        "STALL_SHUTDOWN_TIME_SECONDS",
        whole(10**9),
        "stall_check.shutdown_time_seconds",
        "end the job after so many; 0: never (0)",
    ),
    Tunable(
        ("--mpi-threads-disable",),
        "MPI_THREADS_DISABLE",
        flag,
        "library_options.mpi_threads_disable",
        "without effect",
        ("--no-mpi-threads-disable",),
        "MPI is not used",
    ),
    Tunable(
        ("--num-nccl-streams",),
        "NUM_NCCL_STREAMS",
        whole(64),
        "library_options.num_nccl_streams",
        "without effect",
        (),
        "streams are not chosen by number",
    ),
    Tunable(
        ("--thread-affinity",),
        "THREAD_AFFINITY",
        cores,
        "library_options.thread_affinity",
        "without effect",
        (),
        "threads are not bound to cores; taskset or numactl before the command does that",
    ),
    Tunable(
        ("--gloo-timeout-seconds",),
        "GLOO_TIMEOUT_SECONDS",
        whole(10**9),
        "library_options.gloo_timeout_seconds",
        "without effect",
        (),
        "gloo is not used; --start-timeout bounds the start, FARANDOLE_OP_TIMEOUT_SECONDS a collective",
    ),
    Tunable(("--log-level",), "LOG_LEVEL", level, "logging.level", f"{', '.join(LEVELS)} (WARNING)"),
    Tunable(
        ("--log-with-timestamp", "--no-log-hide-timestamp"),
        "LOG_HIDE_TIME",
        opposite,
        "logging.with_timestamp",
        "without effect",
        ("--log-without-timestamp", "--log-hide-timestamp"),
        _NO_TIME,
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All of them, in one group; the help is silent about contraries and those without effect."""
    group = parser.add_argument_group(
        "tuning (keys of --config-file: docs/launching.md; variables: docs/configuration.md)"
    )
    for tunable in TUNABLES:
        shown = argparse.SUPPRESS if tunable.without_effect else tunable.help
        if tunable.off and not tunable.without_effect:
            shown += f"; {tunable.off[0]}: the opposite"
        if tunable.convert in (flag, opposite):
            both = group.add_mutually_exclusive_group()
            both.add_argument(*tunable.flags, dest=tunable.dest, action="store_const", const="yes", help=shown)
            both.add_argument(*tunable.off, dest=tunable.dest, action="store_const", const="no", help=argparse.SUPPRESS)
        else:
            group.add_argument(*tunable.flags, dest=tunable.dest, metavar="VALUE", help=shown)
