"""The extension's own parts of a JupyterLab page: the list of runs at the left, and a run's dashboard."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def show_runs(page: Page) -> Locator:
    """Open the sidebar and return it."""
    page.evaluate("async () => { await window.jupyterapp.commands.execute('nbdist:show-runs') }")
    sidebar = page.locator(".nbdist-sidebar")
    sidebar.wait_for()
    return sidebar


def run_named(sidebar: Locator, name: str) -> Locator:
    """Return the newest run of that name."""
    return sidebar.locator(f".nbdist-run[data-run*='-{name}-']").first


def open_run(page: Page, name: str) -> Locator:
    """Open the run's dashboard and return it."""
    run = run_named(show_runs(page), name)
    expect(run).to_be_visible()
    run.click()
    dashboard = page.locator(".nbdist-dash:visible")
    expect(dashboard).to_contain_text(name)
    return dashboard
