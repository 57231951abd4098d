"""What command lines share: layers of settings, errors, interrupts."""
