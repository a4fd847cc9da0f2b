"""Custom tools of the report worker; it gets only the functions that its file lists."""

from pathlib import Path


def send_mail(to: str, text: str) -> str:
    """Send a mail.

    Args:
        to: the address.
        text: what to say.
    """
    with Path(__file__).with_name("outbox.txt").open("a", encoding="utf-8") as outbox:
        outbox.write(f"To {to}: {text}\n")
    return f"sent to {to}"


def empty_outbox() -> None:
    """Throw all mails away; no worker can call this, because none lists it."""
    Path(__file__).with_name("outbox.txt").unlink()
