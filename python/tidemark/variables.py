"""Environment variables, set temporarily."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def during(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within the block, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
