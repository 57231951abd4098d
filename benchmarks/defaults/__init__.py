"""The defaults of `python -m node.init` beside scikit-learn, on the same rows."""
