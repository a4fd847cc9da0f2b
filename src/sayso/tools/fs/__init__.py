"""File access below an open directory: openat without symlinks, atomic writes."""
