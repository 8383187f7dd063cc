"""Numbers as Java 17 and Java 25 have written them."""

from __future__ import annotations

import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol.java_numbers import decimal_texts, float_texts

DOUBLES: list[tuple[float, str, str]] = [
    (1.0, "1.0", ""),
    (-1.0, "-1.0", ""),
    (0.0, "0.0", ""),
    (-0.0, "-0.0", ""),
    (float("nan"), "NaN", ""),
    (float("inf"), "Infinity", ""),
    (float("-inf"), "-Infinity", ""),
    (100.0, "100.0", ""),
    (4.35, "4.35", ""),
    (123456.789, "123456.789", ""),
    (1 / 3, "0.3333333333333333", ""),
    (0.001, "0.001", ""),
    (0.002, "0.002", ""),
    (0.000999, "9.99E-4", ""),
    (0.0001, "1.0E-4", ""),
    (9999999.0, "9999999.0", ""),
    (1e7, "1.0E7", ""),
    (12345678.0, "1.2345678E7", ""),
    (1e16, "1.0E16", ""),
    (1e20, "1.0E20", ""),
    (1e22, "1.0E22", ""),
    (1e23, "9.999999999999999E22", "1.0E23"),
    (2e23, "1.9999999999999998E23", "2.0E23"),
    (8.41e21, "8.409999999999999E21", "8.41E21"),
    (9007199254740992.0, "9.007199254740992E15", ""),
    (2.0**62, "4.6116860184273879E18", "4.611686018427388E18"),
    (2.0**63, "9.223372036854776E18", ""),
    (2.0**-44, "5.6843418860808015E-14", "5.684341886080802E-14"),
    (-1.5e300, "-1.5E300", ""),
    (1.7976931348623157e308, "1.7976931348623157E308", ""),
    (2.2250738585072014e-308, "2.2250738585072014E-308", ""),
    (2.225073858507201e-308, "2.225073858507201E-308", ""),
    (2.2e-322, "2.2E-322", ""),
    (5e-324, "4.9E-324", ""),
]

SINGLES: list[tuple[float, str, str]] = [
    (1.0, "1.0", ""),
    (0.1, "0.1", ""),
    (3.3, "3.3", ""),
    (-0.0, "-0.0", ""),
    (float("nan"), "NaN", ""),
    (123456.79, "123456.79", ""),
    (0.001, "0.001", ""),
    (0.0001, "1.0E-4", ""),
    (1e7, "1.0E7", ""),
    (16777216.0, "1.6777216E7", ""),
    (1e10, "1.0E10", ""),
    (2.0**33, "8.5899346E9", "8.589935E9"),
    (1e23, "1.0E23", ""),
    (4.7223665e21, "4.7223665E21", ""),
    (-7.0385313e-26, "-7.0385313E-26", ""),
    (3.4028235e38, "3.4028235E38", ""),
    (1.1754944e-38, "1.17549435E-38", "1.1754944E-38"),
    (2e-44, "2.0E-44", ""),
    (1.4e-45, "1.4E-45", ""),
]


@pytest.mark.parametrize(("value", "old", "new"), DOUBLES)
def test_a_double_has_the_texts_of_java_17_and_java_25(value: float, old: str, new: str):
    assert float_texts(value) == ((old, new) if new else (old,))


@pytest.mark.parametrize(("value", "old", "new"), SINGLES)
def test_a_float_has_the_texts_of_java_17_and_java_25(value: float, old: str, new: str):
    value = float(np.float32(value))
    assert float_texts(value, is_single=True) == ((old, new) if new else (old,))


@given(st.integers(0, 2**64 - 1))
def test_each_text_of_a_double_is_read_as_the_same_number(bits: int):
    (value,) = struct.unpack(">d", bits.to_bytes(8))
    assert all(float(text) == value or value != value for text in float_texts(value))


@given(st.integers(0, 2**32 - 1))
def test_each_text_of_a_float_is_read_as_the_same_number(bits: int):
    (value,) = struct.unpack(">f", bits.to_bytes(4))
    texts = float_texts(value, is_single=True)
    assert all(float(np.float32(text)) == value or value != value for text in texts)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("1", ("1",)),
        ("-1.10", ("-1.10",)),
        ("0.000001", ("0.000001",)),
        ("1E-7", ("1E-7", "0.0000001")),
        ("-0.000000120", ("-1.20E-7", "-0.000000120")),
        ("0E-8", ("0E-8", "0.00000000")),
        ("0.000000", ("0.000000",)),
        ("12345678901234567890123456789012345678", ("12345678901234567890123456789012345678",)),
    ],
)
def test_a_decimal_has_the_texts_without_and_with_ansi_mode(value: str, texts: tuple[str, ...]):
    assert decimal_texts(Decimal(value)) == texts
