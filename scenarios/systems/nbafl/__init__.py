"""NbAFL."""
