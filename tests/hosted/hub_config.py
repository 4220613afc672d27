"""A JupyterHub for tests: any name gets in, every server is a process of this user with a home of its own."""

import os
import sys

folder = os.environ["HUB_FOLDER"]
port, own_port, proxy_port = os.environ["HUB_PORTS"].split()

c = get_config()  # type: ignore[name-defined]  # noqa: F821
c.JupyterHub.bind_url = f"http://127.0.0.1:{port}/behind/"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{own_port}/behind/"
c.ConfigurableHTTPProxy.command = [os.environ["HUB_PROXY"]]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{proxy_port}"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = f"{folder}/homes/{{username}}"
c.Spawner.args = ["--allow-root", "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
c.Spawner.env_keep = ["PATH", "LANG", "VIRTUAL_ENV", "PYTHONPATH"]
c.Spawner.http_timeout = c.Spawner.start_timeout = 120
c.JupyterHub.db_url = f"sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = f"{folder}/cookie_secret"
c.JupyterHub.services = [{"name": "test", "api_token": os.environ["HUB_TOKEN"]}]
c.JupyterHub.load_roles = [
    {
        "name": "test",
        "services": ["test"],
        "scopes": ["admin:users", "admin:servers", "tokens", "access:servers"],
    }
]

if idle := os.environ.get("HUB_IDLE"):
    c.Spawner.environment = {"JUPYTERHUB_ACTIVITY_INTERVAL": "1"}
    culler = ["-m", "jupyterhub_idle_culler", f"--timeout={idle}", "--cull-every=1"]
    c.JupyterHub.services.append({"name": "culler", "command": [sys.executable, *culler]})
    scopes = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
    c.JupyterHub.load_roles.append({"name": "culler", "services": ["culler"], "scopes": scopes})
