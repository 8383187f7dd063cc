// Compile-only declaration, never in the jar.
package scala.collection;

public interface Seq<A> {
    Iterator<A> iterator();
}
