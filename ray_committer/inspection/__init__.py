"""Look at destinations, jobs and files; nothing in here changes anything."""
