"""Danger tables: options with which ordinary programs run code or write files, by subject."""
