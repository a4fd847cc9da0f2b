"""Records, the pure decision, and the protocols that everything else implements; no I/O."""
