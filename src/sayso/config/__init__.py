"""Configuration loaders: the only code that reads configuration files and turns them into objects."""
