"""The only readers of configuration: what people wrote becomes the objects that the rest works with."""
