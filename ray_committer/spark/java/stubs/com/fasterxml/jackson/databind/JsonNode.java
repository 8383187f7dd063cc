// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.databind;

import java.util.Iterator;

public abstract class JsonNode implements Iterable<JsonNode> {
    public abstract JsonNode get(String name);

    public abstract JsonNode path(String name);

    @Override
    public abstract Iterator<JsonNode> iterator();

    public abstract boolean isObject();

    public abstract boolean isNull();

    public abstract boolean isTextual();

    public abstract String asText();

    public abstract long asLong();
}
