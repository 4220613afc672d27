"""What runs inside a rank. Imports as little as it can: the program's own start must not wait."""
