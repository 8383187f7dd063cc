"""Where work runs: in this thread, in threads, or on Ray. Executors know no store and no protocol."""
