"""Where a run's supervisor is started: on this machine, or by an engine on others.

Five verbs, the same for each: submit, status, logs, stop, attach. Logs are the files of the run's directory,
which the machines share, and to attach is to read that directory; so an engine has to answer three,
``Engine`` in ``engine``.
"""
