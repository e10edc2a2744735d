from __future__ import annotations

import pytest

_terminal: list[pytest.TerminalReporter] = []


# The reporter registers itself in this hook, too.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    _terminal[:] = [config.pluginmanager.get_plugin("terminalreporter")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Last comes what is slow by the tool that it needs."""
    items.sort(key=lambda item: item.name == "test_our_kernels_stay_within_their_memory")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tells failures and figures when they are there: a machine with a GPU may be there for minutes only."""
    if not _terminal or _terminal[0] is None:
        return  # a process of pytest-xdist, whose reports come to the one with the terminal
    if report.failed:
        _terminal[0].write_line(f"\n{report.nodeid}\n{report.longreprtext}")
    if report.when == "call":
        for name, figure in report.user_properties:
            _terminal[0].write_line(f"\n{name}: {figure}")
