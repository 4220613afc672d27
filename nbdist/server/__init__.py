"""The extension of the Jupyter server: this user's runs over HTTP, for pages. No kernel takes part.

``openapi.yaml`` beside this file is what it promises. It starts nothing but VisualDL, and writes nothing
but requests into a run's ``control/``.
"""
