"""What a failing rank can tell of its error: looks at the frames of the traceback, each of which
``worker.error_report`` writes into the report. No line of the program runs for them."""
