"""The command line ``farandole``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from farandole.launch.kubernetes import flags as kubernetes_flags
from farandole.launch.settings import flags
from farandole.launch.settings.settings import Settings
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
    _add_status(commands)
    _add_dashboard(commands)
    kubernetes_flags.add(commands)
    commands.add_parser(
        "completion",
        help="prints what bash or zsh needs to complete flags",
        description='For bash: eval "$(farandole completion)" in ~/.bashrc. For zsh the same in ~/.zshrc, after '
        "autoload -U bashcompinit && bashcompinit.",
    )
    parser.set_defaults(commands=commands.choices)
    return parser


def parsed_by(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Ends the process with code 2 and what the command, or its subcommand, takes where that does not know a flag."""
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        if "commands" in parsed:
            parser = parsed.commands[parsed.subcommand]
        hint = flags.did_you_mean(unknown[0].partition("=")[0], parser._option_string_actions)
        parser.error(f"there is no {unknown[0]}" + (f"; {hint}" if hint else ""))
    return parsed


def _add_status(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`farandole status`: its flags stand here so that a run imports nothing else of it."""
    parser = commands.add_parser(
        "status",
        usage="farandole status [JOB] [--watch] [--json]\n       farandole status --controller HOST:PORT --job JOB "
        "--token-file FILE [--tls-ca FILE | --tls-pinned FILE] [--watch] [--json]",
        help="shows what a job does, who waits for whom, and who is late",
        description="Shows the jobs that this user has started with `farandole run` on this host, or one job of a "
        "deployed controller. Exit code 1: a controller does not answer, or there is no such job.",
    )
    _add_job_flags(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on showing it: redrawn in a terminal (by rich if it is installed), else a line per change",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="a line per job, with --watch per change: JobStatus of farandole/v1/status.proto as protobuf's own JSON",
    )


def _add_dashboard(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`farandole dashboard`: its flags stand here for the same reason."""
    parser = commands.add_parser(
        "dashboard",
        usage="farandole dashboard [JOB] [--listen HOST:PORT]\n       farandole dashboard --controller HOST:PORT "
        "--job JOB --token-file FILE [--tls-ca FILE | --tls-pinned FILE] [--listen HOST:PORT]",
        help="shows a job, or a list of jobs, in a browser: ranks, waits, lateness and speed over time, events",
        description="Serves a page about one job, or about several and each of them, and prints its URL. The page only "
        "reads. Ends with Ctrl-C; that of one job also ten minutes after the job if nobody looks any more.",
    )
    _add_job_flags(parser)
    flags.add_listen(parser)


def _add_job_flags(parser: argparse.ArgumentParser) -> None:
    """Which job, and how its controller is asked; launch.status.jobs reads them."""
    parser.add_argument("name", nargs="?", metavar="JOB", help="one of the jobs of this host; its beginning is enough")
    parser.add_argument("--controller", metavar="HOST:PORT", help="a deployed controller")
    parser.add_argument("--job", help="the job to ask it for, or NAMESPACE.* for all jobs of a namespace")
    parser.add_argument("--token-file", metavar="FILE", help="an observer's token for it, in a file of mode 0600")
    parser.add_argument("--tls-ca", default="", metavar="FILE", help="certificates that may have signed its own")
    parser.add_argument("--tls-pinned", default="", metavar="FILE", help="its own, for the name farandole-controller")
    parser.add_argument("--tls-cert", default="", metavar="FILE", help="certificate of this end, where it wants one")
    parser.add_argument("--tls-key", default="", metavar="FILE", help="its private key, in a file of mode 0600")
    parser.add_argument("--insecure", action="store_true", help="send the token beyond loopback without TLS")


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Settings of a run. Ends the process with code 2 and a sentence on stderr for anything that is wrong."""
    return settings_or_exit(parsed_by(make_parser(), arguments), "farandole run")


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
        from farandole.launch.cli import check_build

        print(check_build.text(), end="")
        return 0
    from farandole.launch.job.run import run

    return run(settings_or_exit(parsed, name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parsed = parsed_by(make_parser(), arguments)
    if parsed.subcommand == "status":
        from farandole.launch.status import status

        return status.run(parsed)
    if parsed.subcommand == "dashboard":
        from farandole.launch.dashboard import commands as dashboard

        return dashboard.run(parsed)
    if parsed.subcommand == "kubernetes":
        from farandole.launch.kubernetes import commands

        return commands.start(parsed)
    if parsed.subcommand == "completion":
        from farandole.launch.cli import completion

        print(completion.bash(parsed.commands), end="")
        return 0
    return start(parsed, "farandole run")
