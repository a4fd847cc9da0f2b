"""Tables of programs and options that run or write something, by subject."""
