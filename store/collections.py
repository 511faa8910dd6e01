"""The collections that Mastra's MongoDB adapter writes."""

THREADS = "mastra_threads"
MESSAGES = "mastra_messages"
RESOURCES = "mastra_resources"
