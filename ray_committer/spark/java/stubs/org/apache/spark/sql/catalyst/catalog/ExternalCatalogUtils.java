// Compile-only declaration, never in the jar.
package org.apache.spark.sql.catalyst.catalog;

public final class ExternalCatalogUtils {
    public static native String getPartitionPathString(String column, String value);
}
