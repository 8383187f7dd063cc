// Compile-only declaration, never in the jar.
package org.apache.spark.sql;

public abstract class RuntimeConfig {
    public native String get(String key, String byDefault);
}
