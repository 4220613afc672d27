"""All rules, by their names."""

from __future__ import annotations

from nbdist.diagnosis.checks import name_rules, placement_rules, training_rules
from nbdist.diagnosis.checks.finding import Finding

RULES = {rule.name: rule for table in (name_rules, placement_rules, training_rules) for rule in table.RULES}


def found(rule: str, line: int, **values: object) -> Finding:
    """A finding that is not certain."""
    return Finding(rule=RULES[rule], line=line, values={name: str(value) for name, value in values.items()})
