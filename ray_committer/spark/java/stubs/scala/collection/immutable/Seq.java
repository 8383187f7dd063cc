// Compile-only declaration, never in the jar.
package scala.collection.immutable;

public interface Seq<A> extends scala.collection.Seq<A> {}
