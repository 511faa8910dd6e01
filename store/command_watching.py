"""Telling of the commands that the driver sends: their names, how long they took, whether they succeeded."""

from collections.abc import Callable

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

CommandObserver = Callable[[str, float, bool], None]
"""Called with the name of a command, its seconds, and whether it succeeded."""


class CommandWatcher(CommandListener):
    """Passes the end of each command on."""

    def __init__(self, observe: CommandObserver) -> None:
        self._observe = observe

    def started(self, event: CommandStartedEvent) -> None:
        """Nothing to tell yet."""

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Tell of a success."""
        self._observe(event.command_name, event.duration_micros / 1e6, True)

    def failed(self, event: CommandFailedEvent) -> None:
        """Tell of a failure."""
        self._observe(event.command_name, event.duration_micros / 1e6, False)
