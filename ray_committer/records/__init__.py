"""Jobs whose rows go into a table of a database: staging tables, a ledger, and one SQL transaction."""
