"""NetworkX: its graphs as input, and gpudist as its backend."""
