"""Hypothesis without deadlines: these tests run beside others on busy machines."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("protocol", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("protocol")
