"""Tools that bring their own rules and previews."""
