"""HTTP routes, thin: parse, ask the engine, answer."""
