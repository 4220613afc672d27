"""The causes of hangs: a call that holds one rank, or the place where the ways of ranks parted."""
