"""The way by a relay: websockets to it, and the streams that run over them."""
