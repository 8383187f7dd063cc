"""A commit, simulated: its stages step by step, and each call of a worker, also with faults.

It makes no request. `ray-committer estimate` answers with formulas instead; tests compare both.
"""
