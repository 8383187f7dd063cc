"""How many requests are made at once, and how fast: rate limit, permits, pauses."""
