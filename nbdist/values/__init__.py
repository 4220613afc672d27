"""Values of a namespace in a file, on their way into a run's ranks or out of them."""
