"""How long a commit takes, which requests it makes and what they cost, before it is run.

A simulation of the stages with measured costs: it makes no request.
"""
