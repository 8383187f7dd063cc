"""How other engines see the files of a destination: exports, readers, catalogs."""
