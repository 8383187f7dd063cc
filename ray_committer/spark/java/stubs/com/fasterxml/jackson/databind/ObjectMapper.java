// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.databind;

import java.io.IOException;

public class ObjectMapper {
    public native JsonNode readTree(String text) throws IOException;
}
