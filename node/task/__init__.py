"""Task files: sections, rules, schemas."""
