"""Rendering of requests for every front end: sanitised text, lines, blocks, phrases."""
