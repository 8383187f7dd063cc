"""Compare the destination with the manifests before the job counts as committed.

This takes one listing per directory and finds sources that changed after their manifest was saved.
Workers first reduce each pack to what is expected; then each lists a share of the directories. Hadoop's
stage of this name runs after ``_SUCCESS`` and the clean-up, when nothing can be undone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from ray_committer.errors import CommitStateUnknownError, ValidationError, mark
from ray_committer.executors.base import Supplied
from ray_committer.protocol.expected_files import by_directory, hashed_etag, pack_expected
from ray_committer.protocol.fingerprints import fingerprint, share_of
from ray_committer.protocol.pack import Pack
from ray_committer.protocol.recovery import Expectation, prove
from ray_committer.stages.checks.find_destinations import find_destinations
from ray_committer.stages.context import JobContext
from ray_committer.stages.run.renamed import Renamed
from ray_committer.stores.base import FileStatus, StoreOperations
from ray_committer.work.worker import Worker

FILES_A_SHARE = 250_000
FILES_A_THREAD = 32
"""The files per extra thread that make it worthwhile, because each may be in its own directory."""
SHOWN = 5
ROUNDS = 5

Expected = dict[bytes, Expectation]


@dataclass(frozen=True, slots=True)
class Share:
    """The directories whose fingerprint falls into share `number` of `shares`."""

    number: int
    shares: int
    directories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of one share: files compared, differences in words, fingerprints of missing files."""

    files: int
    differences: tuple[str, ...]
    missing: frozenset[bytes]


def validate_renamed_files(
    context: JobContext,
    packs: Sequence[Pack],
    held: Collection[str] = (),
    renamed: Renamed | None = None,
) -> int:
    """List every destination directory once, but for those that `renamed` has moved whole; return the
    number of files compared. `held` are destinations to which no file was moved yet. `ValidationError`
    names the first differences. The coordinator must know the directories."""
    compared, differences, missing = 0, list[str](), set[bytes]()
    in_place = renamed.in_place if renamed is not None else frozenset[str]()
    left_out = len(held) if renamed is None else renamed.whole_files + renamed.held_by_pack.total()
    for share in _compare(context, packs, frozenset(held), in_place):
        compared += share.files
        differences += share.differences
        missing |= share.missing
    if missing:
        lost = find_destinations(context, packs, frozenset(missing))
        differences += [f"{mark(path)}: is missing" for path, _ in lost]
    if differences:
        shown = " | ".join(sorted(differences)[:SHOWN])
        raise ValidationError(f"{len(differences)} or more files differ from their manifests: {shown}")
    files = sum(pack.files for pack in packs) - left_out
    if compared != files:
        raise ValidationError(
            f"{mark(context.job.destination)}: {compared} of {files} files were compared",
            "the directories of the others are not known, so run the same command again",
        )
    return compared


def _compare(
    context: JobContext, packs: Sequence[Pack], held: frozenset[str], in_place: frozenset[str]
) -> Iterator[Compared]:
    """The result of each share; a share whose packed data was lost with a node is compared again."""
    pack = partial(_pack_expected, held=held, in_place=in_place)
    waiting: Iterable[Share] = _shares(context, packs)
    for _ in range(ROUNDS):
        packed = tuple(
            ref for _, ref in context.executor.run_with_ref(pack, context.until_cancelled(packs))
        )
        context.check_cancelled()
        again: list[Share] = []
        for result in context.run(_compare_share, (Supplied(share, packed) for share in waiting)):
            if isinstance(result, Share):
                again.append(result)
            else:
                yield result
        if not again:
            return
        waiting = again
    raise CommitStateUnknownError(
        f"{mark(context.job.destination)}: the data to compare was repeatedly lost with its node",
        "all files are in place, so run the same command to finish the commit",
    )


def _pack_expected(
    worker: Worker, pack: Pack, *, held: frozenset[str], in_place: frozenset[str]
) -> tuple[None, bytes]:
    entries = worker.packs.entries(pack, without=in_place)
    return None, pack_expected(
        (entry.dest, entry.expected) for entry in entries if entry.dest not in held
    )


def _shares(context: JobContext, packs: Sequence[Pack]) -> Iterator[Share]:
    files = sum(pack.files for pack in packs)
    worth = -(-files // (FILES_A_THREAD * context.executor.threads))
    shares = max(min(context.executor.width, worth), -(-files // FILES_A_SHARE))
    destination = context.job.destination
    for number in range(shares):
        known = context.executor.directories.share(number, shares)
        # The destination is in no coordinator's list: one share looks for files directly in it.
        if share_of(fingerprint(destination), shares) == number:
            known.append(destination)
        yield Share(number, shares, tuple(known))


def _compare_share(worker: Worker, share: Share, *packed: bytes | None) -> Compared | Share:
    """Work: compare one share of the directories; returns at most a few differences. Returns the share
    itself if some of its packed data is lost."""
    parts = [part for part in packed if part is not None]
    if len(parts) < len(packed):
        return share
    expected = by_directory(parts, share.number, share.shares)
    items = [
        (directory, files)
        for directory in share.directories
        if (files := expected.get(fingerprint(directory))) is not None
    ]
    texts: list[str] = []
    missing: set[bytes] = set()
    for differences, absent in worker.map(partial(_compare_directory, worker.store), items):
        texts += differences
        missing |= absent
    compared = sum(len(files) for _, files in items)
    return Compared(compared, tuple(texts[:SHOWN]), frozenset(islice(missing, SHOWN)))


def _compare_directory(
    store: StoreOperations, item: tuple[str, Expected]
) -> tuple[list[str], set[bytes]]:
    directory, files = item
    try:
        listed = store.list_anew(directory)
    except FileNotFoundError:
        listed = []
    texts, present = [], set[bytes]()
    for status in listed:
        mark = fingerprint(status.path)
        if mark in files:
            present.add(mark)
            texts.append(_difference(files[mark], status))
    return [text for text in texts if text], files.keys() - present


def _difference(expected: Expectation, status: FileStatus) -> str | None:
    if status.is_directory:
        return f"{mark(status.path)}: is a directory"
    if status.size != expected.size:
        return f"{mark(status.path)}: has {status.size} bytes, its manifest says {expected.size}"
    observed = replace(status.observation(), etag=hashed_etag(status.etag))
    if prove(expected, observed) is None:
        return f"{mark(status.path)}: was changed after its manifest was saved"
    return None
