"""The first tabs of GraphiQL: useful queries over the sample conversations."""

from graph.graphiql import Example

_THREADS = """# of one owner, newest first, with what happened in each
query Threads($filter: ThreadFilter) {
  threads(filter: $filter, perPage: 5) {
    threads {
      id
      title
      updatedAt
      messageCount
      lastMessage { role text createdAt }
    }
    total
    hasMore
  }
}
"""

_TRANSCRIPT = """# of one thread, oldest first, as a chat shows it
query Transcript($threadId: ID!, $resourceId: ID) {
  thread(id: $threadId, resourceId: $resourceId) { title metadata workingMemory }
  recall(threadId: $threadId, resourceId: $resourceId, perPage: 20) {
    transcript { id role text createdAt }
    total
    hasMore
  }
}
"""

_RECALL = """# the argument object of memory.recall() is the variables, unchanged
query Recall($threadId: ID!, $resourceId: ID, $perPage: PerPage, $page: Int,
             $include: [IncludeMessage!], $filter: MessageFilter, $orderBy: MessageOrder) {
  recall(threadId: $threadId, resourceId: $resourceId, perPage: $perPage, page: $page,
         include: $include, filter: $filter, orderBy: $orderBy) {
    messages { id role text metadata origin createdAt }
    total
    hasMore
  }
}
"""

_SEARCH = """# by meaning, among all messages of the thread's owner
query Search($threadId: ID!, $vectorSearchString: String, $perPage: PerPage, $threadConfig: ThreadConfig) {
  recall(threadId: $threadId, vectorSearchString: $vectorSearchString, perPage: $perPage, threadConfig: $threadConfig) {
    matches {
      rank
      score
      message { id role text thread { title } }
      before { role text }
      after { role text }
    }
    engine
  }
}
"""

EXAMPLES = (
    Example("Threads", _THREADS, '{"filter": {"resourceId": "customer-ana"}}'),
    Example("Transcript", _TRANSCRIPT, '{"threadId": "thread-parcel", "resourceId": "customer-ana"}'),
    Example(
        "Recall",
        _RECALL,
        """{
  "threadId": "thread-parcel",
  "resourceId": "customer-ana",
  "perPage": 3,
  "filter": { "metadata": { "category": "delivery" } },
  "include": [{ "id": "parcel-04", "withPreviousMessages": 1, "withNextMessages": 1 }]
}""",
    ),
    Example(
        "Search",
        _SEARCH,
        """{
  "threadId": "thread-parcel",
  "vectorSearchString": "how do I get my money back",
  "perPage": 0,
  "threadConfig": { "semanticRecall": { "topK": 2, "messageRange": 1 } }
}""",
    ),
)
