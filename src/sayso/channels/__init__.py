"""Ways to tell people that a request is open: one module per kind of front end."""
