"""A store's promises, each with a name and a check: the store contract and the doctor run the same."""
