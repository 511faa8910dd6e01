// A back end for a front end: the last messages of a chat, ready for the AI SDK's useChat.

const QUERY = `
query Chat($threadId: ID!, $resourceId: ID, $perPage: PerPage, $page: Int, $filter: MessageFilter,
           $include: [IncludeMessage!], $orderBy: MessageOrder, $vectorSearchString: String,
           $threadConfig: ThreadConfig) {
  recall(threadId: $threadId, resourceId: $resourceId, perPage: $perPage, page: $page, filter: $filter,
         include: $include, orderBy: $orderBy, vectorSearchString: $vectorSearchString, threadConfig: $threadConfig) {
    transcript { uiMessage }
    total
    hasMore
  }
}`;

/** memory.recall(args), over HTTP. Throws with the code and the message of a refusal. */
export async function recall(args, address = "http://127.0.0.1:8000/graphql") {
  const response = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ query: QUERY, variables: args }),
  });
  const { data, errors } = await response.json();
  if (errors) throw new Error(`${errors[0].extensions.code}: ${errors[0].message}`);
  return data.recall;
}

const address = process.argv[2];
const chat = await recall({ threadId: "thread-parcel", resourceId: "customer-ana", perPage: 2 }, address);
console.log(JSON.stringify(chat, null, 2));
