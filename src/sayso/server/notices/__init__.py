"""Notices to people: scheduled reminders and escalation, and the lease by which one hub of several sends them."""
