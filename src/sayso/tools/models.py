"""Models for workers: those that PydanticAI knows by name, and scripts that stand for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from sayso.adapters.function import guard
from sayso.errors import ConfigurationError
from sayso.tools.files import Attachment, FileTools
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


# What can end a run: the model gives up or is asked too often, or a tool returns what cannot be told to it.
FAILURES = (AgentRunError, UserError, PydanticSerializationError)


def model_of(worker: WorkerFile, instead: Model | str | None) -> Model:
    """Return the model of a worker, or the one that is to be used instead."""
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
    """Return how often a worker may ask its model."""
    return None if worker.limits.requests is None else UsageLimits(request_limit=worker.limits.requests)


def as_prompt(prompt: str, attachments: Sequence[Attachment]) -> str | list[UserContent]:
    """Return a prompt with the files that belong to it: text as text, everything else as it is."""
    if not attachments:
        return prompt
    return [prompt, *(_content(each) for each in attachments)]


def attachment_reader(files: FileTools) -> Callable[[str], Awaitable[Attachment]]:
    """Return how a worker reads a file for another one: a call of its own, that can be waited for and cancelled."""

    async def attach_file(path: str) -> Attachment:
        return await asyncio.to_thread(files.attach_file, path)

    return guard(attach_file, preview=files.preview_attach)


def attach_tool(files: FileTools) -> Callable[[str], UserContent]:
    """Return the tool with which a model looks at a file as it is."""

    def attach_file(path: str) -> UserContent:
        """Look at a file as it is, such as a picture or a PDF.

        Args:
            path: the name of a zone and the way inside it, such as /docs/plan.pdf.
        """
        return _content(files.attach_file(path))

    return guard(attach_file, preview=files.preview_attach)


def _content(attachment: Attachment) -> UserContent:
    try:
        return f"The file {attachment.name}:\n{attachment.data.decode()}"
    except UnicodeDecodeError:
        return BinaryContent(attachment.data, media_type=attachment.media_type)
