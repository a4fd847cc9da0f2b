"""Models of workers: PydanticAI's by name, or scripted ones; and attachments as prompt content.

Tests: tests/tools/test_workers.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from sayso.adapters.function import guard
from sayso.errors import ConfigurationError
from sayso.tools.files import Attachment, FileTools, in_thread
from sayso.tools.scripted import scripted_model
from sayso.tools.worker_file import WorkerFile

try:
    from pydantic_ai import BinaryContent, UserContent
    from pydantic_ai.exceptions import AgentRunError, UserError
    from pydantic_ai.models import Model, infer_model
    from pydantic_ai.usage import UsageLimits
    from pydantic_core import PydanticSerializationError
except ImportError as error:
    raise ImportError("PydanticAI is not installed; run `pip install sayso[pydantic-ai]`") from error


# Errors that end a run: the model gives up or exceeds its limit, or a tool's result cannot be serialised.
FAILURES = (AgentRunError, UserError, PydanticSerializationError)


def model_of(worker: WorkerFile, instead: Model | str | None) -> Model:
    """Return the model of a worker, or its substitute."""
    if isinstance(instead, Model):
        return instead
    if instead is None and worker.script is not None:
        return scripted_model(worker.script)
    name = instead or worker.model
    if name is None:
        raise ConfigurationError(f"{worker.path}: no model is named; add a line such as `model: openai:gpt-5`")
    try:
        return infer_model(name)
    except (UserError, ValueError, ImportError) as error:
        # An unknown name, a missing key, a provider that is not installed: PydanticAI's words say which.
        raise ConfigurationError(f"{worker.path}: the model {name!r} cannot be used: {error}") from error


def usage_limits(worker: WorkerFile) -> UsageLimits | None:
    """Return the limit of a worker's requests to its model."""
    return None if worker.limits.requests is None else UsageLimits(request_limit=worker.limits.requests)


def as_prompt(prompt: str, attachments: Sequence[Attachment]) -> str | list[UserContent]:
    """Return a prompt with its attachments: text as text, other files as binary content."""
    if not attachments:
        return prompt
    return [prompt, *(_content(each) for each in attachments)]


def attachment_reader(files: FileTools) -> Callable[[str], Awaitable[Attachment]]:
    """Return the reader of attachments for another worker: a separate call, which can wait and be cancelled."""

    async def attach_file(path: str) -> Attachment:
        return await asyncio.to_thread(files.attach_file, path)

    return guard(attach_file, preview=in_thread(files.preview_attach))


def attach_tool(files: FileTools) -> Callable[[str], UserContent]:
    """Return the tool with which a model views a file unchanged."""

    def attach_file(path: str) -> UserContent:
        """Look at a file as it is, such as a picture or a PDF.

        Args:
            path: the name of a zone and the way inside it, such as /docs/plan.pdf.
        """
        return _content(files.attach_file(path))

    return guard(attach_file, preview=in_thread(files.preview_attach))


def _content(attachment: Attachment) -> UserContent:
    try:
        return f"The file {attachment.name}:\n{attachment.data.decode()}"
    except UnicodeDecodeError:
        return BinaryContent(attachment.data, media_type=attachment.media_type)
