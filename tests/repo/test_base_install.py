"""What needs no extra works without one."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pycurl", "botocore", "gcsfs", "adlfs", "pyarrow", "pyspark"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from ray_committer.cli.main import main
main(["status", sys.argv[1]])
"""


def test_a_local_destination_needs_no_extra(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
