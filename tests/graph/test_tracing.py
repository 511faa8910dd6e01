"""Spans of OpenTelemetry, where they are asked for."""

from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.zoo import serving, thread


async def test_an_operation_and_its_fields_are_spans(plain_database: Any) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    await plain_database.mastra_threads.insert_one(thread("t1"))
    async with serving(plain_database, opentelemetry=True) as client:
        answer = await client.ask("query Listing { threads { threads { id } } }")
    assert answer.data == {"threads": {"threads": [{"id": "t1"}]}}
    names = [span.name for span in exporter.get_finished_spans()]
    assert any("Listing" in name for name in names)
    assert any("threads" in name for name in names)


async def test_without_the_setting_there_are_no_spans(plain_database: Any) -> None:
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with serving(plain_database) as client:
        assert (await client.ask("{ threads { total } }")).data["threads"]["total"] == 0
    assert exporter.get_finished_spans() == ()
