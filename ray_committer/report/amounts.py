"""Seconds, bytes and counts as text for people."""

from __future__ import annotations

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def bytes_text(number: int) -> str:
    """Bytes in powers of 1,000, as for disks and stores: ``999 bytes``, ``1.2 kB``, ``34 GB``."""
    if number == 1:
        return "1 byte"
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 1 if unit and value < 9.95 else 0
    return f"{value:,.{digits}f} {_UNITS[unit]}"


def seconds_text(seconds: float) -> str:
    """A duration in its two largest units: ``40 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def short_seconds(seconds: float) -> str:
    """Seconds with as many digits as matter, or minutes and hours if these are easier to read."""
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 90 else seconds_text(seconds)


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2,000 files``: a number with a noun whose plural ends with s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
