// Runs the audits of graphql-http against the URL given and prints them as one JSON list: id, name, status, reason.
import { auditServer } from "graphql-http";

const [url] = process.argv.slice(2);
const results = await auditServer({ url });
console.log(JSON.stringify(results.map(({ id, name, status, reason }) => ({ id, name, status, reason }))));
