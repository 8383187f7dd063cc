// Compile-only declaration, never in the jar.
package scala.collection.mutable;

import scala.collection.Iterator;

public class LinkedHashMap<K, V> {
    public native Iterator<K> keysIterator();

    public native int size();
}
