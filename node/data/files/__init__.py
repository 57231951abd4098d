"""The kinds of files that hold rows, each read as it is written."""
