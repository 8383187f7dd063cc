// Compile-only declaration, never in the jar.
package scala;

@FunctionalInterface
public interface Function1<T, R> {
    R apply(T value);
}
