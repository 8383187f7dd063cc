// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.databind;

public abstract class JsonNode {
    public abstract JsonNode get(String name);

    public abstract boolean isObject();

    public abstract boolean isNull();

    public abstract String asText();

    public abstract long asLong();
}
