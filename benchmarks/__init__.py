"""Measures sayso beside the least work that could do the job and beside its peers: `python3 dev.py bench`."""
