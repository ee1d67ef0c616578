"""The one error of the plugin."""


class GenerationError(Exception):
    """The request cannot become code; the message is one line that says where and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
