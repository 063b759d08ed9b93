"""TopsKit's platform: what programs run on, and the session that every tool reads."""
