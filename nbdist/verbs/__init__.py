"""Each verb on runs, nodes and this machine, defined once; ``magics`` and ``cli`` show its result."""
