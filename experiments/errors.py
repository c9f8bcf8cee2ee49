"""The one kind of error that is the user's to mend: named in a single line. Nothing is imported here."""


class UserError(ValueError):
    """Bad input: its message is one line that names the field, the value and what is allowed.

    Every command prints it as `COMMAND: error: MESSAGE` and exits with status 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))


class TakenOver(UserError):
    """Another process has finished the run that this one is at work on."""
