"""Programs that the shell tool starts: processes with limits, the sandbox and its mounts."""
