"""`murmuration` alone: a local page that leads from a file to a model, for people who use no terminal."""
