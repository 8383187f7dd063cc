// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.databind.node;

public abstract class JsonNodeFactory {
    public static final JsonNodeFactory instance = null;

    public abstract ArrayNode arrayNode();

    public abstract ObjectNode objectNode();
}
