"""All promises of a store, in the order of the doctor's lines."""

from __future__ import annotations

from ray_committer.stores.promises import directories, files, renames, states

PROMISES = (*renames.PROMISES, *states.PROMISES, *files.PROMISES, *directories.PROMISES)
