"""Streams between keys over a relay: frames, the streams at the ends, the switch between, and admission."""
