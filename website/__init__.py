"""Pages of the documentation site that are generated from the code when the site is built."""
