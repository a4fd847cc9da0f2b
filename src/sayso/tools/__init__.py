"""Built-in tools with their own rules and previews: files, shell, workers."""
