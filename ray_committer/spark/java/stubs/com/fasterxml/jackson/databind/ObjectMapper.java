// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.databind;

import java.io.IOException;

public class ObjectMapper {
    public native JsonNode readTree(String text) throws IOException;

    public native JsonNode readTree(byte[] content) throws IOException;

    public native byte[] writeValueAsBytes(Object value) throws IOException;
}
