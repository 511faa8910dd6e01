"""Resources: the owners of threads, with their working memory."""

from datetime import datetime

import strawberry

from graph.scalars import JSONObject


@strawberry.type(description="An owner of threads (a user, a customer, a team), as far as the memory keeps something.")
class Resource:
    id: strawberry.ID = strawberry.field(description="The id that threads and messages name as `resourceId`.")
    working_memory: str | None = strawberry.field(
        description="Working memory of the resource scope, null when there is none."
    )
    metadata: JSONObject = strawberry.field(description="Whatever else is kept about the owner.")
    created_at: datetime | None = strawberry.field(description="When the row was created.")
    updated_at: datetime | None = strawberry.field(description="When the row was last changed.")
