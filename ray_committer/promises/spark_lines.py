"""Doctor checks of Spark: its version, the committer's jar, and the default committer.

They only read files, and ask a Python for its names of files: no JVM is started.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ray_committer.errors import RayCommitterError
from ray_committer.promises.lines import Line, Verdict
from ray_committer.version import PROTOCOL_CLASS, PROTOCOL_KEY, jar_path

SPARK = ((3, 5), (5, 0))
"""The supported versions: from the first, and before the second."""
SCALA = ("2.12", "2.13")

NOT_THROUGH_US = (
    "Delta, Iceberg and Hudi tables, the streaming file sink and rdd.saveAsTextFile are not committed "
    "by ray_committer"
)

_SEPARATOR = re.compile(r"\s*[=:]\s*|\s+")  # as in Java's properties
_SECONDS = 20.0
_CORE = re.compile(r"spark-core_(\d+\.\d+)-(\d+)\.(\d+)\.(.+)\.jar")


def examine_spark(home: Path | None = None) -> list[Line]:
    """Return the lines for the Spark at `home`, else ``SPARK_HOME``, else the installed PySpark."""
    home = home or _home()
    limits = Line("not through us", Verdict.NOTE, NOT_THROUGH_US)
    if home is None:
        return [Line("spark", Verdict.NOTE, "not used: PySpark is not installed here"), limits]
    return [_spark(home), _jar(home), _default_committer(home), file_names(_started_with()), limits]


def _home() -> Path | None:
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def _core(home: Path) -> re.Match[str] | None:
    """Return Scala's version and the parts of Spark's, from the name of Spark's core jar."""
    matches = (_CORE.fullmatch(path.name) for path in home.glob("jars/spark-core_*.jar"))
    return next((match for match in matches if match), None)


def _spark(home: Path) -> Line:
    core = _core(home)
    if core is None:
        advice = "install PySpark again, or correct SPARK_HOME"
        return Line("spark", Verdict.WARNING, f"{home}: contains no Spark jar", advice)
    scala, major, minor, patch = core.groups()
    measured = f"Spark {major}.{minor}.{patch} with Scala {scala}, {_hadoop(home)}, at {home}"
    if SPARK[0] <= (int(major), int(minor)) < SPARK[1]:
        return Line("spark", Verdict.OK, measured)
    return Line("spark", Verdict.WARNING, measured, "use Spark 3.5 or 4, which are tested")


def _hadoop(home: Path) -> str:
    names = sorted(path.stem for path in home.glob("jars/hadoop-client-api-*.jar"))
    return f"Hadoop {names[0].rpartition('-')[2]}" if names else "no Hadoop client"


def _jar(home: Path) -> Line:
    name = f"{PROTOCOL_CLASS.replace('.', '/')}.class"
    try:
        path = jar_path()
        with zipfile.ZipFile(path) as jar:
            jar.getinfo(name)
    except RayCommitterError as e:
        return Line("committer jar", Verdict.FAILED, e.what, e.advice)
    except (zipfile.BadZipFile, KeyError):
        return Line(
            "committer jar", Verdict.FAILED, f"{path}: has no {name}", "install ray-committer again"
        )
    core = _core(home)
    if core is not None and core[1] not in SCALA:
        measured = f"{path}: is for Scala {' and '.join(SCALA)}, Spark uses {core[1]}"
        return Line(
            "committer jar", Verdict.FAILED, measured, "use a Spark that was built with one of these"
        )
    return Line("committer jar", Verdict.OK, f"{path}: for Scala {' and '.join(SCALA)}")


def _default_committer(home: Path) -> Line:
    """Report which committer is used if `ray_committer.spark.install` was not called."""
    path = Path(os.environ.get("SPARK_CONF_DIR", home / "conf")) / "spark-defaults.conf"
    bound = _setting(path, PROTOCOL_KEY)
    if bound == PROTOCOL_CLASS:
        measured = f"{path}: every session of this Spark uses ray_committer"
        return Line("committer", Verdict.OK, measured, "call ray_committer.spark.install in each driver")
    who = f"{bound} ({path})" if bound else "Spark's own committer"
    measured = f"{who} is used until ray_committer.spark.install is called in the driver"
    return Line("committer", Verdict.OK, measured)


def file_names(variables: Mapping[str, str]) -> Line:
    """Judge the names of files in a JVM that is started with these variables: it takes them from the
    locale, as a Python does that may not correct them."""
    program = "import locale; print(locale.nl_langinfo(locale.CODESET))"
    as_they_are = {**variables, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    try:
        asked = subprocess.run(
            [sys.executable, "-S", "-c", program],
            env=as_they_are,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except OSError:  # another user's Python, which this one may not start
        encoding = ""
    else:
        encoding = asked.stdout.strip()
    if encoding.upper() == "UTF-8" or sys.platform == "darwin":
        return Line("file names", Verdict.OK, "Spark's JVMs find all names of local files")
    return Line(
        "file names",
        Verdict.WARNING,
        f"a JVM that this shell starts has {encoding or 'unknown'} names of local files, so Spark's "
        f"writes of other names there are refused",
        "set LC_ALL=C.UTF-8 for the driver, and spark.executorEnv.LC_ALL=C.UTF-8",
    )


def _started_with() -> Mapping[str, str]:
    """The variables that this process was started with: Python corrects the locale in its own."""
    try:
        lines = Path("/proc/self/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return os.environ
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _setting(path: Path, key: str) -> str | None:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return None
    last_value = None
    for line in lines:
        name, value, *_ = (*_SEPARATOR.split(line.strip(), maxsplit=1), "")
        if name == key:
            last_value = value.strip()  # Java takes the last value of a key
    return last_value
