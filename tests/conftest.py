"""What all tests share: a destination, and jobs written to it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

import ray_committer
from ray_committer.jobs.task_attempts import run_attempt
from ray_committer.limits import waiting
from ray_committer.protocol import plan
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.staging import token_in
from ray_committer.stores import guarded, registry
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests import bare_paths
from tests.own_stores import install_fsspec_store
from tests.raylets import Raylets
from tests.servers.class_archive import java_tool_options
from tests.tiers import EXAMPLES, mark_every_other

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WriteJob = Callable[..., JobAttempt]

# All clusters of a test process and what joins them have one token. Ray reads the mode once a process,
# and `ray.init` sets it for local clusters alone; where cluster and driver differ, no actor starts.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = "of-the-tests-" + "0" * 32

# gcsfs would ask for the kind of a bucket through gRPC, which fake-gcs-server does not answer.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

# By default Ray's workers give way to the tests, which wait for them.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's own name

# A process of Ray computes for more than a second as it starts. So none starts that nobody has asked
# for, and one that has nothing to do stays for the next test; by default it ends after a second.
os.environ["RAY_enable_worker_prestart"] = "0"  # noqa: SIM112
os.environ["RAY_prestart_worker_first_driver"] = "0"  # noqa: SIM112
os.environ["RAY_idle_worker_killing_time_threshold_ms"] = "30000"  # noqa: SIM112

# The agent of each node looks at all processes of the machine every five seconds, for the dashboard.
os.environ["REPORTER_UPDATE_INTERVAL_MS"] = "60000"

if "JAVA_TOOL_OPTIONS" not in os.environ:
    os.environ["JAVA_TOOL_OPTIONS"] = java_tool_options()

hypothesis.settings.register_profile("of this tier", max_examples=EXAMPLES)
hypothesis.settings.load_profile("of this tier")


@pytest.fixture(autouse=True, scope="session")
def _errors_mark_their_paths() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        bare_paths.check_all(patch)
        yield


@pytest.fixture(autouse=True)
def _stores_are_opened_anew() -> None:
    """A store stays open in its process, and has what the environment said when it was opened."""
    registry.open_stores.clear()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that a store refused, or did not answer, is made again at once."""
    monkeypatch.setattr(waiting, "REQUEST", waiting.Pauses(0.0, waiting.REQUEST.longest))
    monkeypatch.setattr(guarded, "STATE_SECONDS", 0.0)


@pytest.fixture
def small_shards(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker gets ten files at once, or as many as the parameter says, so a small job has several
    shards."""
    files = getattr(request, "param", 10)
    monkeypatch.setattr(plan, "SMALLEST_SHARD", files)
    monkeypatch.setattr(plan, "LARGEST_SHARD", files)


@pytest.fixture
def store() -> LocalStore:
    return LocalStore(StoreSpec("file"))


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def write_job(dest: Path) -> WriteJob:
    """Set up a job and commit tasks: ``write_job({0: {"p=1/a": "text"}, 1: {...}})``. A file whose name
    has the token of its attempt is staged."""

    def write(
        tasks: Mapping[int, Mapping[str, str]], *, job_id: str = "job_1", mark_success: bool = True
    ) -> JobAttempt:
        options = ray_committer.CommitOptions(mark_success=mark_success)
        ray_committer.setup_job(str(dest), job_id, options=options)
        for task, files in tasks.items():
            chooses_names = any(map(token_in, files))
            with run_attempt(
                str(dest), job_id, task, 0, options=options, chooses_names=chooses_names
            ) as attempt:
                for relative, text in files.items():
                    file, _ = attempt.open_chosen(relative)
                    with file:
                        file.write(text.encode())
        return new_job_attempt(str(dest), job_id, 0)

    return write


@pytest.fixture
def tree(dest: Path) -> Callable[[], dict[str, str]]:
    """The visible files below the destination and their contents, without ``_SUCCESS``."""
    return lambda: visible_files(dest)


@pytest.fixture
def fsspec_stores(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Where the example of an own store is installed, for fsspec's `memory` and `dir`."""
    site = tmp_path_factory.mktemp("site")
    install_fsspec_store(site, "memory", "dir")
    monkeypatch.syspath_prepend(site)
    registry.own_store.cache_clear()
    yield site
    registry.own_store.cache_clear()
    registry.open_stores.clear()


@pytest.fixture
def open_dest() -> Iterator[Path]:
    """A destination that any user may look into, unlike pytest's own directories."""
    root = Path(tempfile.mkdtemp(prefix="ray-committer-test-"))
    root.chmod(0o755)
    yield root / "table"
    if os.getuid() == 0:
        os.seteuid(0)
    for path in root.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(root)


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Run as an ordinary user, since root ignores permissions."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def visible_files(root: Path) -> dict[str, str]:
    """What readers of a destination see, without ``_SUCCESS``, also while jobs are at work there."""
    found = {}
    for parent, directories, names in os.walk(root):
        directories[:] = [name for name in directories if name != "_temporary"]
        for path in (Path(parent, name) for name in names):
            found[str(path.relative_to(root))] = path.read_text()
    found.pop("_SUCCESS", None)
    return dict(sorted(found.items()))


_RAYLETS = pytest.StashKey[Raylets]()
_NEXT_IS_ON_RAY = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RAYLETS] = Raylets()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_every_other(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the shared cluster where tests begin that need none: idle raylets take a twelfth of a core."""
    raylets = item.config.stash[_RAYLETS]
    if item.get_closest_marker("ray") is None and not raylets.are_in_use:
        raylets.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    item.config.stash[_NEXT_IS_ON_RAY] = "ray_cluster" in getattr(nextitem, "fixturenames", ())


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_RAYLETS].stop()


@pytest.fixture(scope="module")
def ray_cluster(pytestconfig: pytest.Config) -> Iterator[None]:
    """A Ray cluster of three raylets on this machine, and this process connected to it.

    The connection ends with the module, unless the next one needs it, too: other tests in the same
    process need to be without Ray.
    """
    with pytestconfig.stash[_RAYLETS].connection(is_kept=lambda: pytestconfig.stash[_NEXT_IS_ON_RAY]):
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for all tests of this process that need one."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("LC_ALL", "C.UTF-8")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the tasks of Python writers need this package
    home = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.execution.pythonUDF.arrow.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def no_shared_raylets(pytestconfig: pytest.Config) -> None:
    """End the shared cluster, whose processes a module with a cluster of its own could take for its."""
    pytestconfig.stash[_RAYLETS].stop()
