"""The database that a URL names, and the URL as it is shown: without its password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ray_committer.errors import PathError, mark
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.registry import shown_url

Kind = Literal["postgresql", "sqlite"]
_KINDS: dict[str, Kind] = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite"}
_SECRET = ("password", "sslpassword")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f#]")
_NO_PASSWORD = "give the password in PGPASSWORD or in ~/.pgpass"  # noqa: S105 - an advice
_DEFAULTS = {
    "application_name": "ray_committer",
    "connect_timeout": "30",  # seconds
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",  # milliseconds
}
"""How soon libpq notices a server that does not answer; the URL can have other values."""


@dataclass(frozen=True, slots=True)
class Database:
    """One database. `shown` is its URL without a password; `address` is what its driver opens."""

    kind: Kind
    shown: str
    address: str = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def hide(self, text: str) -> str:
        """Return a text of the driver without what a URL keeps secret."""
        for secret in self.secrets:
            text = text.replace(secret, "...")
        return text


def parse_database(url: str) -> Database:
    """Read a URL: ``postgresql://user@host:port/database`` or ``sqlite:///absolute/path``. `PathError`
    if it is no such URL; the text never has the password."""
    scheme, colon, rest = url.partition(":")
    if not colon or scheme not in _KINDS:
        raise PathError(
            f"{mark(without_password(url))}: is not the URL of a database",
            "write postgresql://USER@HOST/DATABASE or sqlite:///absolute/path/of/the/file.db",
        )
    if not rest.startswith("//"):
        raise PathError(f"{scheme}:...: lacks slashes", f"write {scheme}:// and what follows it")
    kind = _KINDS[scheme]
    return _sqlite(url) if kind == "sqlite" else _postgresql(url)


def sqlite_path(database: Database) -> str:
    """Return the path of the file of an SQLite database."""
    return unquote(urlsplit(database.shown).path)


def _sqlite(url: str) -> Database:
    rest = url.partition("://")[2]
    if not rest.startswith("/") or set(rest) == {"/"} or "?" in rest or "#" in rest:
        raise PathError(
            f"{without_password(url)}: names no file", "write sqlite:///absolute/path/of/the/file.db"
        )
    path = "/" + unquote(rest).lstrip("/")
    return Database("sqlite", f"sqlite://{quote(path)}", f"file:{quote(path)}?mode=rw")


def _postgresql(url: str) -> Database:
    authority, slash, tail = url.partition("://")[2].partition("/")
    path, _, query = tail.partition("?")
    is_ambiguous = "?" in authority or "@" in path or authority.count("@") > 1
    if _FORBIDDEN.search(url) or is_ambiguous:  # nothing is shown: it may be a password
        raise PathError("postgresql://...: a character of the URL must be quoted", "write it as %XX")
    given = dict(parse_qsl(query))
    if named := [name for name in _SECRET if name in given]:
        raise PathError(f"postgresql://...: {named[0]} is a parameter of the URL", _NO_PASSWORD)
    start = shown_url(StoreSpec("postgresql", authority), "") if authority else "postgresql://"
    missing = [f"{name}={value}" for name, value in _DEFAULTS.items() if name not in given]
    more = "&".join([query, *missing] if query else missing)
    user = authority.rpartition("@")[0]
    secrets = tuple({password := user.partition(":")[2], unquote(password)} - {""})
    return Database(
        "postgresql", f"{start}{slash}{tail}", f"postgresql://{authority}/{path}?{more}", secrets
    )
