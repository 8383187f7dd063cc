// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.databind.util;

public class RawValue {
    public RawValue(String json) {}
}
