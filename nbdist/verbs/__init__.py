"""What can be done to runs, nodes and this machine, once; ``magics`` and ``cli`` show what came of it."""
