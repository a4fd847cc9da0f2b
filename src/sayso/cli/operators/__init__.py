"""Commands of operators: remembered decisions, audit log, retention, statistics."""
