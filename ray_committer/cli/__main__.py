"""``python -m ray_committer.cli``."""

from ray_committer.cli.main import main

main()
