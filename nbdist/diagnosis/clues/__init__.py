"""What the program and the values in the failing line tell of an error, beside what its words say."""
