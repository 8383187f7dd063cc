// Compile-only declaration, never in the jar.
package scala.runtime;

public final class BoxedUnit {
    public static final BoxedUnit UNIT = null;

    private BoxedUnit() {}
}
