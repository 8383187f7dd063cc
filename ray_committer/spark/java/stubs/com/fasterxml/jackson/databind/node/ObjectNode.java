// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.databind.node;

import com.fasterxml.jackson.databind.JsonNode;

public abstract class ObjectNode extends JsonNode {
    public abstract ObjectNode put(String name, String value);

    public abstract ObjectNode put(String name, int value);

    public abstract ObjectNode put(String name, long value);

    public abstract ObjectNode put(String name, boolean value);

    public abstract ArrayNode putArray(String name);

    public abstract ObjectNode putObject(String name);

    public abstract <T extends JsonNode> T setAll(ObjectNode other);

    public abstract <T extends JsonNode> T set(String name, JsonNode value);
}
