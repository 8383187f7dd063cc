// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.core;

public enum JsonToken {
    FIELD_NAME
}
