"""Numbers as Java writes them, and so Spark in the names of partitions.

A number can have two texts. Up to Java 18, ``Double.toString`` does not always find the fewest digits
(JDK-4511638), and from Java 19 on it does. Spark writes a decimal as ``BigDecimal.toString`` does or, in
ANSI mode, as ``BigDecimal.toPlainString`` does.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

_DOUBLE, _SINGLE = (52, 1023), (23, 127)
"""The bits of the significand of a format, and the bias of its exponent."""
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0.0": "0.0", "-0.0": "-0.0"}
_LARGEST_WHOLE = 62
"""Java takes whole numbers up to this power of 2 as they are."""
_POWERS = 27
"""Java knows the bits of so many powers of 5, and estimates the bits of higher ones."""


def decimal_texts(value: Decimal) -> tuple[str, ...]:
    """The texts of a decimal: as Spark up to 3.5 writes it, then as ANSI mode does, if it differs."""
    return tuple(dict.fromkeys((str(value), format(value, "f"))))


def float_texts(value: float, *, is_single: bool = False) -> tuple[str, ...]:
    """The texts of a double, or a single: as Java up to 18 writes it, and later ones, if it differs."""
    if (special := _SPECIAL.get(repr(float(value)))) is not None:
        return (special,)
    sign, size = "-" * (value < 0), abs(value)
    spellings = (_digits_of_old_java(size, is_single), _fewest_digits(size, is_single))
    return tuple(dict.fromkeys(sign + _layout(digits, exponent) for digits, exponent in spellings))


def _layout(digits: str, exponent: int) -> str:
    """``0.digits`` times ten to the power of `exponent`, as Java writes it."""
    if 0 < exponent < 8:
        return f"{digits[:exponent]:0<{exponent}}.{digits[exponent:] or 0}"
    if -3 < exponent <= 0:
        return f"0.{'0' * -exponent}{digits}"
    return f"{digits[0]}.{digits[1:] or 0}E{exponent - 1}"


def _fewest_digits(value: float, is_single: bool) -> tuple[str, int]:
    """The fewest digits that are read as this number, but at least two: the nearest such text."""
    kind = np.float32 if is_single else np.float64
    text = np.format_float_scientific(kind(value), unique=True, trim="-")
    # Java writes two digits at least, and of all texts with two the nearest one: not always the one
    # digit and 0.
    if len(text.partition("e")[0]) == 1:
        text = format(value, ".1e")
    digits, _, exponent = text.partition("e")
    return digits.replace(".", "").rstrip("0"), int(exponent) + 1


def _digits_of_old_java(value: float, is_single: bool) -> tuple[str, int]:
    """The digits that Java up to 18 writes, and their exponent. Source: its ``FloatingDecimal.dtoa``."""
    significand, bias = _SINGLE if is_single else _DOUBLE
    bits = int(np.float32(value).view(np.uint32) if is_single else np.float64(value).view(np.uint64))
    exponent, fraction = bits >> significand, bits & ((1 << significand) - 1)
    if exponent:
        fraction |= 1 << significand
    width = fraction.bit_length()
    # A number without an exponent is subnormal: its width says how large it is.
    power = (exponent or width - significand) - bias
    # Without trailing zero bits, so that its length is the number of significant bits.
    fraction >>= (fraction & -fraction).bit_length() - 1
    below = max(0, fraction.bit_length() - power - 1)
    if below == 0 and power <= _LARGEST_WHOLE:
        return _digits_of_whole(fraction << (power + 1 - fraction.bit_length()), power - width)
    return _digits_of_fraction(fraction, power, below, width)


def _digits_of_whole(number: int, excess: int) -> tuple[str, int]:
    """The digits of a whole number of which the lowest `excess` bits are not significant."""
    dropped = len(str(1 << (excess - 1))) - 1 if excess > 2 else 0
    digits = str((number + 10**dropped // 2) // 10**dropped)
    return digits.rstrip("0"), len(digits) + dropped


def _digits_of_fraction(fraction: int, power: int, below: int, width: int) -> tuple[str, int]:
    """Divide digit by digit, until the rest is less than half a unit of the last of `width` bits."""
    size = fraction.bit_length()
    # Java's estimate of the decimal exponent, with its constants: it may be one too high, which
    # `_divide` corrects.
    start = fraction / (1 << (size - 1)) - 1.5
    decimal = math.floor(start * 0.289529654 + 0.176091259 + power * 0.301029995663981)
    five, ten = max(0, -decimal), max(0, decimal)
    twos = [five + below + power - size + 1, ten + below, five + below + power - width - (size == 1)]
    least = min(twos)
    number_twos, divisor_twos, unit_twos = (power_of_two - least for power_of_two in twos)
    number = fraction * 5**five << number_twos
    divisor, unit = 5**ten << divisor_twos, 5**five << unit_twos
    bits = max(size + number_twos + _bits_of_five(five), divisor_twos + 1 + _bits_of_five(ten + 1))
    return _divide(number, divisor, unit, decimal, _register(bits))


def _divide(number: int, divisor: int, unit: int, decimal: int, bits: int | None) -> tuple[str, int]:
    """The digits of `number` by `divisor`, by Java's integers of so many `bits`, which overflow."""

    def ends() -> tuple[bool, bool]:
        if bits is None:
            return rest < unit, rest + unit >= tens
        if unit <= 0:  # it has overflowed
            return True, True
        return rest < unit, _wrapped(rest + unit, bits) > tens

    tens, digits = 10 * divisor, ""
    digit, rest = divmod(number, divisor)
    rest, unit = 10 * rest, _wrapped(10 * unit, bits)
    low, high = ends()
    if digit or high:
        digits = str(digit)
    else:
        # The estimate was one too high: the first digit is 0 and is left out.
        decimal -= 1
    if not -3 <= decimal < 8:
        low = high = False  # it needs a digit after the point
    while not low and not high:
        digit, rest = divmod(rest, divisor)
        rest, unit = 10 * rest, _wrapped(10 * unit, bits)
        low, high = ends()
        digits += str(digit)
    # Java compares twice the rest with ten units in the same register, overflow included.
    more = _wrapped(_wrapped(2 * rest, bits) - tens, bits)
    if high and (not low or more > 0 or (more == 0 and int(digits[-1]) % 2)):
        digits, carried = str(int(digits) + 1).zfill(len(digits)), len(digits)
        decimal += len(digits) > carried
        digits = digits[:carried]
    return digits, decimal + 1


def _wrapped(value: int, bits: int | None) -> int:
    """A value as Java's integer of so many bits holds it."""
    return value if bits is None else (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _register(needed: int) -> int | None:
    """The bits of Java's integer that holds so many; None if none does."""
    return next((bits for bits in (32, 64) if needed < bits), None)


def _bits_of_five(power: int) -> int:
    """How many bits Java takes a power of 5 to have."""
    if power >= _POWERS:
        return 3 * power
    return (5**power).bit_length() if power else 0
