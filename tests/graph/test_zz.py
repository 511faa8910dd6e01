import logging, collections
from tests.graph.test_fuzz import *
from tests.graph.test_fuzz import client
SEEN=collections.Counter()
N=collections.Counter()
@given(document=queries(SCHEMA, custom_scalars=LITERALS, mode=Mode.NEGATIVE))
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
async def test_x(client, document):
    r=await client.http.post("/graphql", json={"query": document})
    N[r.status_code]+=1
    if "INTERNAL" in r.text or r.status_code>=500:
        key=("1e999" in document, r.text[:100])
        if SEEN[key]<2: print("@@", r.text[:200], key, "\n", document[:1500])
        SEEN[key]+=1
def test_y(): print("@@@",SEEN,N)
