"""What remote agents do: ask, wait for the answer, use it up, and tell what came of it."""

from __future__ import annotations

from fastapi import APIRouter

routes = APIRouter()
