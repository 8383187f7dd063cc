"""A real PostgreSQL on this machine, from Debian's package, with a password.

`initdb` makes the files of an empty server once, in a cache directory; each server starts from a copy of
them. PostgreSQL refuses to run as root, so under root it runs as `nobody`. Nothing is forced to disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from adbc_driver_postgresql import dbapi

from tests.servers import debian
from tests.servers.ports import free_port

CACHE = Path(__file__).parents[2] / ".cache" / "servers" / "postgresql"
START_SECONDS = 120.0
USER, PASSWORD = "committer", "Hidden-4711"

_PACKAGES = ("postgresql-15", "libpq5", "libicu72", "libxml2", "libldap-2.5-0", "libsasl2-2")
_BINARIES = Path("usr/lib/postgresql/15/bin")
_NOBODY = 65534
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "jit": "off",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "max_wal_size": "2GB",
}


class Postgresql:
    """One server with an empty database ``postgres``; its files are in a directory that ends with it."""

    def __init__(self, cache: Path = CACHE) -> None:
        self._cache = cache
        self._process: subprocess.Popen[bytes] | None = None
        self.directory = Path()
        self.port = 0

    def start(self) -> Postgresql:
        """Start, and return once it answers; the first start installs. An error that holds its log."""
        install(self._cache)
        self.directory = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self.directory.chmod(0o755)
        self.port = free_port()
        data = self.directory / "data"
        shutil.copytree(self._cache / "data", data)
        _give_away(data)
        settings = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": str(data)}
        programs = _programs(self._cache, self.directory)
        command = [*_as_nobody(), str(programs / _BINARIES / "postgres"), "-D", str(data)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *(word for item in settings.items() for word in ("-c", "=".join(item)))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=data,
                env=_environment(programs),
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it and delete its files; idempotent."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # its own processes end with it
            self._process.wait(60)
            self._process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """A URL that holds the password, through another `port` if one is given."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port or self.port}/{database}"

    def run(self, statement: str, database: str = "postgres") -> None:
        """Run one statement."""
        with (
            dbapi.connect(self.url(database), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            self.run("SELECT 1")
        except dbapi.OperationalError:
            return False
        return True


@contextlib.contextmanager
def postgresql_server() -> Iterator[Postgresql]:
    """A server for the length of a block."""
    server = Postgresql().start()
    try:
        yield server
    finally:
        server.stop()


def install(cache: Path = CACHE) -> None:
    """Put the programs and the files of an empty server into `cache`, once for all processes."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (cache / "installed").exists():
            return
        for name in ("root", "data"):
            shutil.rmtree(cache / name, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            shutil.move(debian.unpack(_PACKAGES, Path(scratch)), cache / "root")
        _initialize(cache)
        (cache / "installed").touch()


def _initialize(cache: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="postgresql-") as name:
        directory = Path(name)
        (directory / "password").write_text(PASSWORD)
        (directory / "data").mkdir()
        _give_away(directory)
        programs = _programs(cache, directory)
        done = subprocess.run(
            [
                *(
                    *_as_nobody(),
                    str(programs / _BINARIES / "initdb"),
                    "-D",
                    str(directory / "data"),
                    "--no-sync",
                ),
                *("--username", USER, "--pwfile", str(directory / "password"), "--auth=password"),
                *("--locale=C.UTF-8", "--encoding=UTF8"),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=directory,
            env=_environment(programs),
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")
        shutil.move(directory / "data", cache / "data")


def _programs(cache: Path, directory: Path) -> Path:
    """The unpacked packages; their copy in `directory` if the user of the server cannot go to them."""
    programs = (cache / "root").resolve()
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    return Path(shutil.copytree(programs, directory / "programs", symlinks=True))


def _environment(programs: Path) -> dict[str, str]:
    libraries = ":".join(sorted(map(str, (programs / "usr" / "lib").glob("*-linux-gnu"))))
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": libraries}


def _as_nobody() -> list[str]:
    """What runs a program as an ordinary user, and ends it when the process that started it dies."""
    command = ["setpriv", "--pdeathsig", "QUIT"]
    if os.geteuid() == 0:
        command += [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    return command


def _give_away(directory: Path) -> None:
    """Let PostgreSQL own a directory, which it demands, and with all that is in it."""
    for path in (directory, *directory.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, _NOBODY, _NOBODY)
    directory.chmod(0o700)
