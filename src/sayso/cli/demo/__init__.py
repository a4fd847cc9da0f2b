"""The demo: `sayso demo`, and the files of the worker that it runs."""
