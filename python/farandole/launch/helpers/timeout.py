"""A deadline that activities are checked against, as ``horovod.runner.common.util.timeout`` has it."""

from __future__ import annotations

import time


class TimeoutException(Exception):
    """The deadline is over."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Timeout:
    """A deadline.

    Args:
        timeout: seconds from now on.
        message: of the exception; ``{activity}`` in it stands for what was not in time.
    """

    def __init__(self, timeout: float, message: str) -> None:
        self._timeout, self._message = timeout, message
        self._until = time.monotonic() + timeout

    def remaining(self) -> float:
        """Seconds that are left; 0 at least."""
        return max(0.0, self._until - time.monotonic())

    def timed_out(self) -> bool:
        """Whether it is over."""
        return time.monotonic() > self._until

    def check_time_out_for(self, activity: str) -> None:
        """Raises TimeoutException if it is over."""
        if self.timed_out():
            text = self._message.format(activity=activity).rstrip()
            raise TimeoutException(f"{text.removesuffix('.')}. Timeout after {self._timeout} seconds.")
