"""Judging lines for bash: a strict lexer for what may run, a generous search for what must not, and tables."""
