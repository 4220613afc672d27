"""Browser tests: a package, so that a fixture can be of all its files and of no others."""
