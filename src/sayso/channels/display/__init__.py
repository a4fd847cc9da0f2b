"""How a request is shown, at every place where people answer: sanitised text, lines, phrases."""
