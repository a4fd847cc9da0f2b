"""The controller and its parts: review a call, ask, wait, claim, run, journal."""
