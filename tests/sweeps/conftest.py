"""Fixtures of the tests of sweeps."""

import pytest
from postgres import Server


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL server."""
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.remove()
