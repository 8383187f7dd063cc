// Compile-only declaration, never in the jar.
package org.apache.spark;

import scala.Option;

public class SparkContext$ {
    public static final SparkContext$ MODULE$ = null;

    public native Option<SparkContext> getActive();
}
