"""The code inside a rank. It imports as little as it can, since the program waits for it."""
