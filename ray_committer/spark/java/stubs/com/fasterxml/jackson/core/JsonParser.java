// Compile-only declaration, never in the jar.
package com.fasterxml.jackson.core;

import java.io.Closeable;
import java.io.IOException;

public abstract class JsonParser implements Closeable {
    public abstract JsonToken nextToken() throws IOException;

    public abstract String getText() throws IOException;

    @Override
    public abstract void close() throws IOException;
}
