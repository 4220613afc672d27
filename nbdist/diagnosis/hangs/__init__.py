"""Why ranks wait for each other for ever: what holds one of them, or where their ways parted."""
