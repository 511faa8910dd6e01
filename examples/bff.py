"""A back end for a front end: the last messages of a chat, ready for the AI SDK's `useChat`."""

import json
import sys
import urllib.request
from typing import Any

QUERY = """
query Chat($threadId: ID!, $resourceId: ID, $perPage: PerPage, $page: Int, $filter: MessageFilter,
           $include: [IncludeMessage!], $orderBy: MessageOrder, $vectorSearchString: String,
           $threadConfig: ThreadConfig) {
  recall(threadId: $threadId, resourceId: $resourceId, perPage: $perPage, page: $page, filter: $filter,
         include: $include, orderBy: $orderBy, vectorSearchString: $vectorSearchString, threadConfig: $threadConfig) {
    transcript { uiMessage }
    total
    hasMore
  }
}
"""


def recall(arguments: dict[str, Any], address: str = "http://127.0.0.1:8000/graphql") -> dict[str, Any]:
    """`memory.recall(arguments)`, over HTTP. Raises RuntimeError with the code and the message of a refusal."""
    body = json.dumps({"query": QUERY, "variables": arguments}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    for error in answer.get("errors", []):
        raise RuntimeError(f"{error['extensions']['code']}: {error['message']}")
    found: dict[str, Any] = answer["data"]["recall"]
    return found


if __name__ == "__main__":
    chat = recall({"threadId": "thread-parcel", "resourceId": "customer-ana", "perPage": 2}, *sys.argv[1:])
    json.dump(chat, sys.stdout, indent=2, ensure_ascii=False)
