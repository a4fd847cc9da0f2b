"""Where requests, remembered decisions and the audit are kept: one module per store."""
