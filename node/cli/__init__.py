"""What command lines share: the table of commands, layers of settings, errors, interrupts."""
