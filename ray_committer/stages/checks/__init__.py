"""What the preflight looks at before the record, one module per question. Nothing is changed."""
