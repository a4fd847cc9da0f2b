"""Channels: how people are asked or notified of a request, one module per kind of front end."""
