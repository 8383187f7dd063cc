// Compile-only declaration, never in the jar.
package org.apache.spark.broadcast;

import java.io.Serializable;

public abstract class Broadcast<T> implements Serializable {
    private static final long serialVersionUID = 1L;

    public native T value();
}
