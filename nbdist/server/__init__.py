"""The extension of the Jupyter server: this user's runs over HTTP, without a kernel (``openapi.yaml``).

It starts nothing but VisualDL, and writes nothing but requests into a run's ``control/``.
"""
