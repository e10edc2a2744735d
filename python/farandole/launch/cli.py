"""The command line ``farandole``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from farandole.launch.settings import flags
from farandole.launch.settings.settings import Settings
from farandole.launch.status import status
from farandole.version import __version__


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="farandole", description="Trains one model on many processes.")
    parser.add_argument("--version", action="version", version=f"farandole {__version__}")
    commands = parser.add_subparsers(dest="subcommand", metavar="command", required=True)
    run = commands.add_parser(
        "run",
        usage="farandole run -np N [-H HOST:SLOTS,...] [options] command [arguments ...]",
        help="runs a command as N processes, here or on several hosts",
        description="Runs a command as N processes, which find each other in hvd.init(). Ends when all have ended "
        "well; when one fails the others are ended, and the exit code is that of the first failure.",
    )
    flags.add_arguments(run)
    status.add_arguments(commands)
    return parser


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Settings of a run. Ends the process with code 2 and a sentence on stderr for anything that is wrong."""
    return settings_or_exit(make_parser().parse_args(arguments), "farandole run")


def settings_or_exit(parsed: argparse.Namespace, name: str) -> Settings:
    """Settings of a run. Ends the process with code 2 and a sentence on stderr for anything that is wrong."""
    try:
        return flags.settings_of(parsed, name)
    except flags.UsageError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(2)


def start(parsed: argparse.Namespace, name: str) -> int:
    """Does what parsed flags of a run ask for; returns the exit code."""
    if parsed.check_build:
        from farandole.launch import check_build

        print(check_build.text(), end="")
        return 0
    return launch(settings_or_exit(parsed, name))


def launch(settings: Settings) -> int:
    """Runs a job; returns its exit code."""
    if settings.elastic:
        from farandole.launch.elastic.driver import run
    else:
        from farandole.launch.job.run import run

    return run(settings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parsed = make_parser().parse_args(arguments)
    if parsed.subcommand == "status":
        return status.run(parsed)
    return start(parsed, "farandole run")
