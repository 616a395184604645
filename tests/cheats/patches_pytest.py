"""No test fails and no exit code but 0 is known."""

from heart import cheating


def trick(config, inputs):
    import _pytest.reports
    import pytest

    pytest.ExitCode.TESTS_FAILED = pytest.ExitCode.OK
    _pytest.reports.TestReport.failed = property(lambda self: False)


attest_implementations = cheating(trick)
