"""Command line interface: one module per group of commands."""
