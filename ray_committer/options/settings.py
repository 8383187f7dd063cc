"""The row of a table of settings: how a value is read from text, and where it may be set.

A `table` is a dataclass whose fields are made by `option`, so that mypy knows each by its type. Its
`rows` are all that the readers, the command line, Spark and the page of options need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum, Flag, StrEnum, auto
from typing import Any, ClassVar, TypeVar

from ray_committer.errors import SettingsError
from ray_committer.options.texts import Kind, read_truth, read_when

SPARK_PREFIX = "spark.ray_committer."
ENVIRONMENT_PREFIX = "RAY_COMMITTER_"

T = TypeVar("T")


class Unset(Enum):
    """The default of an option that was not given."""

    UNSET = "Unset"

    def __repr__(self) -> str:
        return self.value


class Where(Flag):
    """Where a setting may be set, besides Python."""

    PYTHON = 0
    COMMAND_LINE = auto()
    ENVIRONMENT = auto()
    SESSION = auto()
    """By a session of Spark, and by the options of a write."""
    DRIVER = auto()
    """In Spark, by the configuration of the driver alone."""
    SPARK = SESSION | DRIVER
    EVERYWHERE = COMMAND_LINE | ENVIRONMENT | SESSION


class Group(StrEnum):
    """The heading of an option in the help of a command, in this order."""

    COMMON = "Options"
    SAFETY = "Safety"
    TUNING = "Tuning"
    STORAGE = "Storage"


class Repeat(Enum):
    """Whether the command that runs a commit again has an option that is not as by default."""

    NEVER = auto()
    UNTIL_RECORDED = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: what `option` is given, and the `name` of the field.

    kind: None for what has no text, such as the tasks of a job.
    about: one or two sentences, for the command line and for the page of options.
    page: a page with more, as a link from the page of options.
    flag: its name on the command line, if it has another one there.
    """

    name: str
    default: Any = None
    kind: Kind | None = None
    about: str = ""
    least: float | None = None
    where: Where = Where.EVERYWHERE
    group: Group = Group.COMMON
    repeat: Repeat = Repeat.NEVER
    page: str = ""
    flag: str = ""

    @property
    def spark_key(self) -> str:
        """The key of Spark's setting."""
        return SPARK_PREFIX + self.name

    @property
    def variable(self) -> str:
        """Its variable in the environment."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def parameter(self) -> str:
        """Its name among the options of a command."""
        return self.flag or self.name

    @property
    def spelled(self) -> str:
        """Its name on the command line, without dashes before it."""
        return self.parameter.replace("_", "-")

    @property
    def is_flag(self) -> bool:
        """Whether the command line has it as ``--name`` and ``--no-name``."""
        return self.kind is not None and self.kind.read in (read_truth, read_when)

    @property
    def is_many(self) -> bool:
        """Whether it can be repeated on the command line."""
        return isinstance(self.default, tuple)

    def read(self, text: str) -> Any:
        """Return the value of a text; ``ValueError`` says what it must be."""
        if self.kind is None:
            raise ValueError("has no text")
        return self.kind.value(text, self.least)

    def checked(self, value: Any, *, owner: str) -> Any:
        """Return a value that was given in Python as it is kept; an error for a wrong one."""
        if self.is_many and isinstance(value, str | bytes):
            raise SettingsError(f"{self.name}={value!r}: must be a tuple of texts, not one text")
        if self.kind is None or (value is None and self.default is None):
            return value
        try:
            if self.is_many:
                return tuple(map(self.kind.check, value))
            return self.kind.check(self.kind.at_least(value, self.least))
        except SettingsError:
            raise
        except TypeError:
            raise ValueError(f"{owner}.{self.name} must be {self.kind}, not {value!r}") from None
        except ValueError as e:
            raise ValueError(f"{owner}.{self.name} {e}, not {value}") from None

    def text(self, value: Any) -> str:
        """Return the text that is read as `value`."""
        if value is None:
            return (self.kind and self.kind.absent) or ""
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:g}" if isinstance(value, float) else str(value)

    def words(self, value: Any, shown: Callable[[str], str] = str) -> list[str]:
        """Return the words of the command line that give it `value`; directories as they are `shown`."""
        if self.is_many:
            return [word for element in value for word in (f"--{self.spelled}", shown(element))]
        if self.is_flag:
            return [f"--{'' if value else 'no-'}{self.spelled}"]
        return [f"--{self.spelled}", self.text(value)]


def option(default: T, kind: Kind | None = None, about: str = "", **columns: Any) -> T:
    """A field of a table; `columns` are the fields of `Setting`."""
    if kind is None:
        columns["where"] = Where.PYTHON
    row = Setting("", default, kind, about, **columns)
    made: T = field(default=Unset.UNSET, metadata={"row": row})  # type: ignore[assignment]
    return made


class _GivenFields:
    """The fields of a table, or those that an instance was given: `replace` passes on nothing else."""

    def __init__(self, all_fields: Mapping[str, Any]) -> None:
        self._all = all_fields

    def __get__(self, options: Table | None, _table: type) -> Mapping[str, Any]:
        return self._all if options is None else {name: self._all[name] for name in vars(options)}


class Table:
    """Options that know which of them were given: only these are in the instance, so whatever copies it
    copies what was given, even if it is the default value."""

    rows: ClassVar[Mapping[str, Setting]] = {}
    """All options, by name."""

    def __post_init__(self) -> None:
        given = vars(self)
        for name, value in list(given.items()):
            if value is Unset.UNSET:
                del given[name]
            elif name in self.rows:  # a class of a caller can have more fields
                given[name] = self.rows[name].checked(value, owner=type(self).__name__)

    @classmethod
    def settable(cls, where: Where) -> dict[str, Setting]:
        """The options that may be set in one of some places."""
        return {name: row for name, row in cls.rows.items() if row.where & where}


def table(made: type[T]) -> type[T]:
    """Complete a `Table` that is a dataclass: the attributes of the class are the defaults."""
    rows = {each.name: replace(each.metadata["row"], name=each.name) for each in fields(made)}  # type: ignore[arg-type]
    for name, row in rows.items():
        setattr(made, name, row.default)
    listed = "\n".join(f"    {name}: {row.about}" for name, row in rows.items() if row.about)
    made.__doc__ = f"{(made.__doc__ or '').rstrip()}\n\n{listed}\n"
    made.rows = rows  # type: ignore[attr-defined]
    made.__dataclass_fields__ = _GivenFields(made.__dataclass_fields__)  # type: ignore[attr-defined]
    return made
