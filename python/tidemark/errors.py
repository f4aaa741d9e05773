"""Errors that a person can act on: what is wrong, where, and what to do."""


class TidemarkError(Exception):
    """Printed as its message alone, without a stack trace."""


class ConfigError(TidemarkError):
    """A feed's declaration, or the project around it, is wrong."""


class SetupError(TidemarkError):
    """The machine lacks something: Java, a jar, a folder."""


class LakeBusyError(TidemarkError):
    """Another process is writing to the lake."""
