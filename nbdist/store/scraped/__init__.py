"""The metrics that a rank only prints, read from its log as points: same values as ``nbdist.log``'s."""
