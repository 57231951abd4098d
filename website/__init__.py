"""Pages of the documentation site that are generated from the code, and programs that fill docs/."""
