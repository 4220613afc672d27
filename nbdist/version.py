"""The version of nbdist, and that of the JSON that its commands print: the one place where they stand."""

__version__ = "0.1.0"

JSON_VERSION = 1
"""Within it fields are added, and none goes or changes its meaning (``verbs/json.schema.json``)."""
