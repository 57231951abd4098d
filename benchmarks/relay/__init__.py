"""What a relay costs: CPU by bytes and by frames, memory and others' pace while readers are stuck."""
