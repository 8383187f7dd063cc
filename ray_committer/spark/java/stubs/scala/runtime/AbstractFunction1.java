// Compile-only declaration, never in the jar.
package scala.runtime;

import scala.Function1;

public abstract class AbstractFunction1<T, R> implements Function1<T, R> {}
