from __future__ import annotations

import pytest

_terminal: list[pytest.TerminalReporter] = []


# The reporter registers itself in this hook, too.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    _terminal[:] = [config.pluginmanager.get_plugin("terminalreporter")]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tells a failure when it happens: a machine with a GPU may be there for minutes only, and not at the end."""
    if report.failed:
        _terminal[0].write_line(f"\n{report.nodeid}\n{report.longreprtext}")
