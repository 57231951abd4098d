"""`python -m node.report`: a run, or several, as one HTML file or as a table."""
