"""Secret patterns: recognition of a secret in ordinary text, by its format, its name or its place."""
