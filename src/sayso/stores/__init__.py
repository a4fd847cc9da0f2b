"""Stores for requests, remembered decisions and the audit: one module or package per store."""
