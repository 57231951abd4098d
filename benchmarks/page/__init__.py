"""The page in a real browser, and what watching costs."""
