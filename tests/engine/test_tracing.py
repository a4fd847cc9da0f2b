"""Spans of calls: what they tell, what they do not, and that they meet in one trace."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from sayso import ApprovalController, ApprovalDecision, ApprovalDenied, Policy, ToolCall
from sayso.core.model import Pending
from sayso.engine.tracing import trace_steps
from sayso.testing import ScriptedChannel

SECRET = "not for the trace"  # noqa: S105 - an argument
POLICY = Policy.from_dict({"default": "required"})


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def provider(spans: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(spans))
    return made


async def pay(args: dict[str, Any]) -> str:
    if args.get("fails"):
        raise ValueError(SECRET)
    return SECRET


def call(**args: Any) -> ToolCall:
    return ToolCall(tool="pay", args={"text": SECRET, **args}, agent_path=("report",))


async def test_a_call_has_a_span_for_its_answer_and_one_for_its_run_in_one_trace(spans: InMemorySpanExporter) -> None:
    person = ScriptedChannel(ApprovalDecision(approved=True, who="ann", note=SECRET))
    hook = trace_steps(provider(spans))
    async with ApprovalController(channels=[person], policy=POLICY, hooks=[hook]) as controller:
        await controller.run(call(), pay)
    answer, run = spans.get_finished_spans()
    assert [answer.name, run.name] == ["approval pay", "execute_tool pay"]
    (request,) = person.asked
    for span, step in ((answer, "approved"), (run, "returned")):
        assert span.attributes is not None
        assert (span.attributes["sayso.step"], span.attributes["sayso.request.id"]) == (step, request.id)
        assert span.context is not None
        assert f"{span.context.trace_id:032x}" == request.id
        assert SECRET not in span.to_json()
    assert answer.start_time == int(request.asked_at * 1e9)


async def test_a_refusal_is_a_span_and_a_failure_says_so(spans: InMemorySpanExporter) -> None:
    person = ScriptedChannel(ApprovalDecision(approved=False), ApprovalDecision(approved=True))
    hook = trace_steps(provider(spans))
    async with ApprovalController(channels=[person], policy=POLICY, hooks=[hook]) as controller:
        with pytest.raises(ApprovalDenied):
            await controller.run(call(), pay)
        with pytest.raises(ValueError, match=SECRET):
            await controller.run(call(fails=True), pay)
    denied, approved, raised = spans.get_finished_spans()
    steps = [dict(span.attributes or {})["sayso.step"] for span in (denied, approved, raised)]
    assert steps == ["denied", "approved", "raised"]
    assert raised.status.status_code is StatusCode.ERROR
    assert SECRET not in raised.to_json()


async def test_spans_belong_to_what_goes_on_where_they_are_made(spans: InMemorySpanExporter) -> None:
    made = provider(spans)
    controller = ApprovalController(mode="defer", policy=POLICY, hooks=[trace_steps(made)])
    with made.get_tracer("test").start_as_current_span("the run of an agent") as outer:
        outcome = await controller.review(call())
        assert isinstance(outcome, Pending)
        await controller.answer(outcome.request.id, ApprovalDecision(approved=False))
    answer = spans.get_finished_spans()[0]
    assert answer.parent is not None
    assert answer.parent.span_id == outer.get_span_context().span_id
