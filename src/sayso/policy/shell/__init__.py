"""Static analysis of bash lines: a strict lexer proves what may run, an over-approximating scan finds what must not."""
