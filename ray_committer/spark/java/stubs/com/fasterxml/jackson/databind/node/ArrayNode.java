// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.databind.node;

import com.fasterxml.jackson.databind.JsonNode;

public abstract class ArrayNode extends JsonNode {
    public abstract ArrayNode add(String value);

    public abstract ArrayNode add(JsonNode value);

    public abstract ObjectNode addObject();

    public abstract int size();
}
