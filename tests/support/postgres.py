"""A PostgreSQL server of its own for tests, on loopback.

It is skipped, with a reason, where PostgreSQL is not installed.
"""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

ROLE = "tester"


def binaries() -> Path | None:
    """The folder of initdb and postgres: on the PATH, or where Debian puts them."""
    found = shutil.which("initdb") or next(
        iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)), None
    )
    return Path(found).parent if found else None


class Server:
    """A server with its data in a temporary folder. It trusts every local user but `careful`, who needs a password."""

    def __init__(self) -> None:
        if binaries() is None:
            pytest.skip("PostgreSQL is not installed: no initdb")
        pytest.importorskip("psycopg", reason="the extra postgres is not installed: no psycopg")
        self.bin, self.port, self.process = binaries(), free_port(), None
        # not in tmp_path, which only its owner may enter: PostgreSQL refuses to run as root
        self.folder = Path(tempfile.mkdtemp(prefix="vit-postgres-"))
        self.user = None
        if os.geteuid() == 0:
            names = [entry.pw_name for entry in pwd.getpwall()]
            self.user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, self.user)
        options = ["--auth=trust", f"--username={ROLE}", "--no-sync", "--encoding=UTF8", "--locale=C"]
        self._run("initdb", "-D", str(self.folder / "data"), *options)
        access = self.folder / "data" / "pg_hba.conf"
        access.write_text(f"host all careful 127.0.0.1/32 scram-sha-256\n{access.read_text()}")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.bin / program), *arguments]
        done = subprocess.run(command, user=self.user, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def start(self, **settings: object) -> None:
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        flags = [
            word
            for name, value in {**options, "fsync": "off", **settings}.items()
            for word in ("-c", f"{name}={value}")
        ]
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(
                [str(self.bin / "postgres"), "-D", str(self.folder / "data"), *flags],
                user=self.user,
                cwd="/",
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 60
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.05)

    def answers(self) -> bool:
        import psycopg

        try:
            self.query("select 1")
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop at once. Open connections are lost."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def query(self, statement: str, database: str = "postgres"):
        """The rows of a statement, on a connection of its own."""
        import psycopg

        place = {"host": "127.0.0.1", "port": self.port, "user": ROLE, "dbname": database}
        with psycopg.connect(**place, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test{len(self.query('select 1 from pg_database'))}"
        self.query(f"create database {name}")
        return f"postgresql+psycopg://{ROLE}@127.0.0.1:{self.port}/{name}"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
