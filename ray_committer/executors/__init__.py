"""Executors run work in this thread, in threads, or on Ray; they know no store and no protocol."""
