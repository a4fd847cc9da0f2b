"""Benchmarks of sayso against a lower bound and against its peers: `python3 dev.py bench`."""
