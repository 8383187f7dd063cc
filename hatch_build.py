"""Build the jar that Spark loads, before hatchling packs it.

Wheels and sdists carry the jar, so that only a checkout needs a JDK. The jar is compiled against
small declarations of the Spark, Scala, Hadoop and Jackson types it uses: one jar fits Scala 2.12 and
2.13, and the build needs neither Spark nor a network. `python hatch_build.py` builds it in place.
Wheels also carry ``docs/errors.md``, for `ray-committer explain`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

JAVA_DIR = "ray_committer/spark/java"
JAR_PATH = "ray_committer/spark/jars/ray-committer.jar"
DIGEST_ENTRY = "META-INF/ray-committer/sources.sha256"
MANIFEST = b"Manifest-Version: 1.0\r\nCreated-By: ray_committer\r\n\r\n"
JAVAC_OPTIONS = ("--release", "8", "-encoding", "UTF-8", "-Xlint:all,-options", "-Werror")
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


class JarBuildError(Exception):
    """The jar cannot be built; the text says what is needed."""


def ensure_jar(root: Path) -> Path:
    """Return the jar, built anew unless the one in place was built from the present sources."""
    java_dir, jar = root / JAVA_DIR, root / JAR_PATH
    digest = sources_digest(java_dir)
    if jar.is_file() and jar_digest(jar) == digest:
        return jar
    javac = shutil.which("javac")
    if javac is None:
        raise JarBuildError(
            f"{JAR_PATH}: a JDK (e.g. Debian's default-jdk-headless) is needed to build from a"
            " checkout; wheels and sdists carry the jar"
        )
    with tempfile.TemporaryDirectory() as scratch:
        classes = compile_classes(javac, java_dir, Path(scratch))
        write_jar(jar, classes, digest)
    return jar


def java_sources(directory: Path) -> list[Path]:
    """List the Java sources below a directory, in an order that is the same everywhere."""
    return sorted(directory.rglob("*.java"), key=lambda path: path.as_posix())


def sources_digest(java_dir: Path) -> str:
    """Digest names and contents of all sources and stubs."""
    digest = hashlib.sha256()
    for path in java_sources(java_dir):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{content}  {path.relative_to(java_dir).as_posix()}\n".encode())
    return digest.hexdigest()


def jar_digest(jar: Path) -> str | None:
    """Read the digest of the sources that a jar was built from; None if it does not tell."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(DIGEST_ENTRY).decode("ascii").strip()
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError):
        return None


def compile_classes(javac: str, java_dir: Path, scratch: Path) -> Path:
    """Compile the stubs, then the sources against them; return the directory of the latter."""
    stubs, classes = scratch / "stubs", scratch / "classes"
    run_javac(javac, java_sources(java_dir / "stubs"), classpath=scratch, output=stubs)
    run_javac(javac, java_sources(java_dir / "src"), classpath=stubs, output=classes)
    return classes


def run_javac(javac: str, sources: list[Path], *, classpath: Path, output: Path) -> None:
    """Compile some sources; javac's own messages are the error's text."""
    output.mkdir()
    command = [javac, *JAVAC_OPTIONS, "-cp", str(classpath), "-d", str(output)]
    finished = subprocess.run(
        [*command, *map(str, sources)], capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        raise JarBuildError(f"{JAVA_DIR}: javac failed\n{finished.stdout}{finished.stderr}")


def write_jar(jar: Path, classes: Path, digest: str) -> None:
    """Write the jar with sorted entries and fixed times, so that equal classes give equal bytes."""
    entries = {
        path.relative_to(classes).as_posix(): path.read_bytes()
        for path in sorted(classes.rglob("*.class"))
    }
    entries[DIGEST_ENTRY] = f"{digest}\n".encode("ascii")
    jar.parent.mkdir(parents=True, exist_ok=True)
    partial = jar.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, content in [("META-INF/MANIFEST.MF", MANIFEST), *sorted(entries.items())]:
            info = zipfile.ZipInfo(name, ZIP_EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, content)
    partial.replace(jar)


try:
    from hatchling.builders.config import BuilderConfig
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # Run as a script, where nothing of hatchling is needed.
    pass
else:

    class BuildHook(BuildHookInterface[BuilderConfig]):  # type: ignore[misc,unused-ignore]
        """Put the jar, which git ignores, into wheels and sdists, and the page of errors into wheels."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Build the jar; for an editable install it only has to be in the source tree."""
            try:
                jar = ensure_jar(Path(self.root))
            except JarBuildError as e:
                self.app.abort(str(e))
            else:
                build_data["artifacts"].append(f"/{jar.relative_to(self.root).as_posix()}")
            if self.target_name == "wheel" and version == "standard":
                build_data["force_include"]["docs/errors.md"] = "ray_committer/errors.md"


if __name__ == "__main__":
    try:
        print(ensure_jar(Path(__file__).resolve().parent))
    except JarBuildError as e:
        sys.exit(str(e))
