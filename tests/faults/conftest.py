import pytest

from tests.faults import results


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table, after a long run."""
    if results.IS_LONG and (results.ROWS or results.MEASURED):
        terminalreporter.section("faults")
        terminalreporter.write_line("\n".join([results.table(), *results.MEASURED]))
