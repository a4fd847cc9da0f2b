"""What users write, checked by mypy and pyright and never run."""
