"""Where a run's supervisor is started: on this machine, or (later) by an engine on others."""
