// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.core;

import java.io.IOException;

public class JsonFactory {
    public native JsonParser createParser(byte[] data) throws IOException;
}
