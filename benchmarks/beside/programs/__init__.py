"""Programs that run in other systems' environments: each file is one, and knows nothing of this project."""
