"""From a call to a verdict; nothing in here does any I/O."""
