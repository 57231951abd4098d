"""What the documentation site shows beside the files in docs/: pages made from the code, when it is built."""
