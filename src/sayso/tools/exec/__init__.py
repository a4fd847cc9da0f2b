"""Process execution for the shell tool: processes with limits, the sandbox and its mounts."""
