"""The command line ``horovodrun``: the flags of ``farandole run`` under Horovod's name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from farandole.launch import cli
from farandole.launch.settings import flags
from farandole.version import __version__


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="horovodrun",
        usage="horovodrun -np N [-H HOST:SLOTS,...] [options] command [arguments ...]",
        description="Runs a command as N processes, which find each other in hvd.init(). This is Farandole's launcher.",
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    flags.add_arguments(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return cli.start(cli.parsed_by(make_parser(), arguments), "horovodrun")
