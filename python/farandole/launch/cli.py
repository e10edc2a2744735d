"""The command line ``farandole``."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence

from farandole.launch import status
from farandole.launch.settings import Settings
from farandole.version import __version__

PROCESSES_MAX = 65536


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= PROCESSES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes between 1 and {PROCESSES_MAX}")
    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _megabytes(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of MiB between 0 and 65536")
    return value


def _port(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port between 1 and 65535")
    return value


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="farandole", description="Trains one model on many processes.")
    parser.add_argument("--version", action="version", version=f"farandole {__version__}")
    commands = parser.add_subparsers(dest="subcommand", metavar="command", required=True)
    run = commands.add_parser(
        "run",
        usage="farandole run -np N [options] command [arguments ...]",
        help="runs a command as N processes on this machine",
        description="Runs a command as N processes on this machine, which find each other in hvd.init(). Ends when "
        "all have ended well; when one fails the others are ended, and the exit code is that of the first failure.",
    )
    run.add_argument("-np", "--num-proc", dest="processes", type=_count, required=True, metavar="N", help="processes")
    run.add_argument(
        "--start-timeout",
        type=_positive,
        metavar="SECONDS",
        help="how long init() waits for the other processes (30, or FARANDOLE_START_TIMEOUT, HOROVOD_START_TIMEOUT)",
    )
    run.add_argument(
        "--fusion-threshold-mb",
        type=_megabytes,
        metavar="MIB",
        help="tensors that are ready together travel together up to this size; 0: each alone (128, or "
        "HOROVOD_FUSION_THRESHOLD in bytes)",
    )
    run.add_argument(
        "--metrics-port",
        type=_port,
        metavar="PORT",
        help="the controller answers Prometheus (GET /metrics) at 127.0.0.1:PORT, without a token",
    )
    run.add_argument("--no-prefix-output", action="store_true", help="do not put the rank before lines of output")
    run.add_argument("--verbose", action="store_true", help="tell what the launcher, the agent and the controller do")
    run.add_argument("command", nargs=argparse.REMAINDER, help="what to run, with its arguments")
    status.add_arguments(commands)
    return parser


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Settings of a run. Ends the process with code 2 and a sentence on stderr for anything that is wrong."""
    return _settings(make_parser().parse_args(arguments))


def _settings(parsed: argparse.Namespace) -> Settings:
    command = parsed.command[1:] if parsed.command[:1] == ["--"] else parsed.command
    if not command:
        _usage_error("no command given: farandole run -np 2 python train.py")
    if shutil.which(command[0]) is None:
        place = "is not an executable file" if os.sep in command[0] else "was not found on the PATH"
        _usage_error(f"command {command[0]!r} {place}")
    return Settings(
        processes=parsed.processes,
        command=tuple(command),
        start_timeout_s=parsed.start_timeout,
        fusion_threshold_bytes=None if parsed.fusion_threshold_mb is None else parsed.fusion_threshold_mb << 20,
        metrics_port=parsed.metrics_port,
        prefix_output=not parsed.no_prefix_output,
        verbose=parsed.verbose,
    )


def _usage_error(sentence: str) -> None:
    print(f"farandole run: {sentence}", file=sys.stderr)
    sys.exit(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parsed = make_parser().parse_args(arguments)
    if parsed.subcommand == "status":
        return status.run(parsed)
    settings = _settings(parsed)
    from farandole.launch.run import run

    return run(settings)
