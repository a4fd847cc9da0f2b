"""Permission managers by AdalFlow's names, each a choice of channel over the one controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack, cast

from sayso.adapters.adalflow.permission import ManagerSettings, PermissionManager
from sayso.engine.settings import named_store
from sayso.errors import ConfigurationError


class CLIPermissionManager(PermissionManager):
    """Asks the person at this terminal, who can edit the arguments as JSON."""

    def __init__(self, *, who: str | None = None, **settings: Unpack[ManagerSettings]) -> None:
        """Use `who` as the name of the person, by default the login name; the rest is as for `PermissionManager`."""
        from sayso.channels.terminal import TerminalChannel  # noqa: PLC0415 - its own extra, for this choice only

        channels = [*settings.get("channels", ()), TerminalChannel(who=who)]
        super().__init__(**cast("Any", {**settings, "channels": channels}))


class RESTPermissionManager(PermissionManager):
    """Asks the people who use a hub on the same store, and waits for their answer."""

    def __init__(self, **settings: Unpack[ManagerSettings]) -> None:
        """Require `store`, which the hub serves; a request expires after `timeout` seconds, by default 30."""
        if "store" not in settings:
            raise ConfigurationError("there is no store that others share: pass store=…, a file or the URL of a hub")
        super().__init__(**cast("Any", {"timeout": 30.0, **settings}))


class WebSocketPermissionManager(RESTPermissionManager):
    """The same as `RESTPermissionManager`: a hub notifies by WebSocket too."""


class StreamlitPermissionManager(PermissionManager):
    """Asks the user of a Streamlit app that shows the same store: `sayso.streamlit.show_approval_requests()`."""

    def __init__(self, **settings: Unpack[ManagerSettings]) -> None:
        """Use `store`, else SAYSO_STORE, else `sayso.db`; `timeout` is 10 minutes by default."""
        super().__init__(**cast("Any", {"store": named_store(), "timeout": 600.0, **settings}))


_CHOICES: Mapping[str, type[PermissionManager]] = {
    "callback": PermissionManager,
    "cli": CLIPermissionManager,
    "rest": RESTPermissionManager,
    "websocket": WebSocketPermissionManager,
    "streamlit": StreamlitPermissionManager,
}


def permission_manager(channel: str, **settings: Any) -> PermissionManager | None:  # noqa: ANN401 - of the one chosen
    """Return the permission manager of this name; `none` returns None, so that the runner asks nobody.

    Raises:
        ConfigurationError: the name is unknown.
    """
    if channel == "none" and not settings:
        return None
    chosen = _CHOICES.get(channel)
    if chosen is None:
        known = ", ".join(map(repr, (*_CHOICES, "none")))
        problem = "'none' takes no settings" if channel == "none" else f"there is no channel {channel!r}"
        raise ConfigurationError(f"{problem}; choose one of {known}")
    return chosen(**settings)
