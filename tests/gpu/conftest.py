from __future__ import annotations

import pytest

# What a machine that is there for minutes is to answer first. Then the rest by NCCL, and what goes through host memory.
FIRST = (
    "test_collectives_against_numpy[2-nccl]",
    "test_collectives_against_numpy[1-nccl]",
    "test_phases_of_the_device",
    "test_every_case[nccl-gradients]",
    "test_every_case[nccl-optimizer]",
    "test_every_case[nccl-plain]",
    "test_streams.py",
    "test_faults.py",
    "test_front_end.py",
)
LAST = ("[4-", "of_four_ranks", "staged", "test_devices.py", "test_our_kernels_stay_within_their_memory")

_terminal: list[pytest.TerminalReporter] = []


# The reporter registers itself in this hook, too.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    _terminal[:] = [config.pluginmanager.get_plugin("terminalreporter")]


def _place_of(item: pytest.Item) -> int:
    late = max((i + 1 for i, part in enumerate(LAST) if part in item.nodeid), default=0)
    early = next((i for i, part in enumerate(FIRST) if part in item.nodeid), len(FIRST))
    return len(FIRST) + late if late else early


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place_of)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tells failures and figures when they are there: a machine with a GPU may be there for minutes only."""
    if not _terminal or _terminal[0] is None:
        return  # a process of pytest-xdist, whose reports come to the one with the terminal
    if report.failed:
        _terminal[0].write_line(f"\n{report.nodeid}\n{report.longreprtext}")
    if report.when == "call":
        for name, figure in report.user_properties:
            _terminal[0].write_line(f"\n{name}: {figure}")
