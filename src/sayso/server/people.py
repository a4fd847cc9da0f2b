"""What people do over REST: see what waits, and answer it."""

from __future__ import annotations

from fastapi import APIRouter

routes = APIRouter()
