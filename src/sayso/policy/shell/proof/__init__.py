"""Proof that the words behind a rule's own are harmless: profiles of programs, and the languages that some read."""
