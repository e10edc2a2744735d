"""``farandole run``: one job, as its settings say."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING

from farandole.launch.hosts.hosts import is_local
from farandole.launch.job.control import missing_program
from farandole.launch.job.driver import Driver
from farandole.launch.job.signals import Signals
from farandole.launch.processes import descriptors
from farandole.launch.remote import ssh
from farandole.launch.settings.settings import Settings, allowed_cores

if TYPE_CHECKING:
    from farandole.launch.function.remote import RemoteFolders

# Before a restart, after one in which no host could be used: a host that starts again needs a while.
PAUSE_S = 3.0


def run(settings: Settings, folders: RemoteFolders | None = None, lifeline: int | None = None) -> int:
    """Runs the command on all processes. Returns the exit code: that of the first that failed, or 0.

    Args:
        settings: of the job.
        folders: are to be on each other host before a process starts there; None: none.
        lifeline: at the end of file of this descriptor the job ends.
    """
    if settings.dry_run:
        print("\n".join(describe(settings)))
        return 0
    missing = missing_program()
    if missing:
        settings.say(missing)
        return 1
    descriptors.open_standard()
    descriptors.warn_if_few(settings.descriptors, descriptors.raise_limit(), settings.say)
    cores = allowed_cores()
    environment = settings.environment(os.environ, cores, _terminal())
    if "OMP_NUM_THREADS" not in os.environ:
        threads, here = environment["OMP_NUM_THREADS"], settings.most_on_a_host
        settings.say(f"OMP_NUM_THREADS={threads} ({cores} cores for {here} processes); set it to choose otherwise")
    # Over all attempts: one that comes between two of them is for the job, too.
    with Signals() as signals:
        for restarts in range(settings.max_restarts + 1):
            variables = {**environment, "FARANDOLE_RESTARTS": str(restarts)}
            try:
                driver = _driver(settings, variables, folders, signals, restarts > 0)
            except RuntimeError as error:
                settings.say(str(error))
                return 1
            code = driver.run(lifeline)
            # What did not begin the first time is wrong in a way that does not pass.
            hopeless = not driver.began and not restarts
            if not code or signals.ended_by or hopeless or restarts == settings.max_restarts:
                break
            again = f"restart {restarts + 1} of {settings.max_restarts}{'' if driver.began else f' in {PAUSE_S:g} s'}"
            settings.say(f"the job has failed with exit code {code}: {again}")
            if not driver.began:
                _pause(signals, lifeline)
            signals.pending.clear()  # before one that ends is looked for: it may come at any time
            if signals.ended_by:
                return 128 + signals.ended_by
    return code


def _pause(signals: Signals, lifeline: int | None) -> None:
    """Returns after PAUSE_S, or when the job is to end."""
    deadline = time.monotonic() + PAUSE_S
    while not signals.ended_by and time.monotonic() < deadline:
        if signals.loop.wait([] if lifeline is None else [lifeline], deadline - time.monotonic()):
            break


def _terminal() -> os.terminal_size | None:
    for descriptor in (1, 2):
        if os.isatty(descriptor):
            return os.get_terminal_size(descriptor)
    return None


def _driver(
    settings: Settings, environment: dict[str, str], folders: RemoteFolders | None, signals: Signals, again: bool
) -> Driver:
    if settings.elastic:
        from farandole.launch.job.elastic import ElasticJob

        return ElasticJob(settings, environment, folders, signals, again)
    from farandole.launch.job.ranks import RankJob

    return RankJob(settings, environment, folders, signals, again)


def describe(settings: Settings) -> list[str]:
    """What would be started, a line for each host, and how a remote one would be reached."""
    if settings.elastic:
        from farandole.launch.job.elastic import given_hosts

        hosts = ", ".join(f"{host}:{slots}" for host, slots in given_hosts(settings).items())
        printed = f"the hosts that {settings.discovery_script!r} prints"
        return [f"{hosts if settings.discovery_script is None else printed} run {shlex.join(settings.command)}"]
    lines = []
    for each in settings.ranks_by_host():
        last = each.first_rank + each.local_size - 1
        ranks = f"rank {last} runs" if each.local_size == 1 else f"ranks {each.first_rank} to {last} run"
        lines.append(f"{each.host}: {ranks} {shlex.join(settings.command)}")
        if not is_local(each.host):
            lines.append(f"  by {shlex.join(ssh.command(settings, each.host, settings.remote_timeout_s(os.environ)))}")
    return lines
