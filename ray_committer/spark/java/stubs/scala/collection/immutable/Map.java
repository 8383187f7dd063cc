// Compile-only declaration, never in the jar.
package scala.collection.immutable;

import scala.Option;

public interface Map<K, V> {
    Option<V> get(K key);
}
