"""Static analysis of bash lines: a strict lexer proves the commands of a line, a tolerant scan finds blocked ones."""
