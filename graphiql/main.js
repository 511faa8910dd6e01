// GraphiQL for the endpoint that serves this page. The server fills the JSON block "settings".
import "@graphiql/react/style.css";
import "@graphiql/plugin-doc-explorer/style.css";
import "@graphiql/plugin-history/style.css";
import "graphiql/graphiql.css";
import "./theme.css";

import { createGraphiQLFetcher, StorageAPI } from "@graphiql/toolkit";
import { GraphiQL } from "graphiql";
import EditorWorker from "monaco-editor/esm/vs/editor/editor.worker.js?worker";
import JsonWorker from "monaco-editor/esm/vs/language/json/json.worker.js?worker";
import GraphQLWorker from "monaco-graphql/esm/graphql.worker.js?worker";
import { createElement } from "react";
import { createRoot } from "react-dom/client";

const WORKERS = { json: JsonWorker, graphql: GraphQLWorker };
globalThis.MonacoEnvironment = {
  getWorker: (_id, label) => new (WORKERS[label] ?? EditorWorker)(),
};

const { examples, scalars } = JSON.parse(document.getElementById("settings").textContent);
const link = new URLSearchParams(location.search);
const linked = link.has("query") && { query: link.get("query"), variables: link.get("variables") ?? "" };
const tabs = linked ? [linked, ...examples] : examples;
// GraphiQL keeps tabs between visits. On the first one it would leave out the variables of the first tab.
const isFirstVisit = !new StorageAPI().get("tabState");
const opened = linked || (isFirstVisit && examples[0]);
const endpoint = location.origin + location.pathname;

const fetcher = createGraphiQLFetcher({
  url: endpoint,
  subscriptionUrl: endpoint.replace(/^http/, "ws"),
  // The endpoint answers in one piece.
  enableIncrementalDelivery: false,
});

createRoot(document.getElementById("graphiql")).render(
  createElement(
    GraphiQL,
    {
      fetcher,
      defaultTabs: tabs.length > 0 ? tabs : undefined,
      initialQuery: opened?.query,
      initialVariables: opened?.variables,
      defaultEditorToolsVisibility: "variables",
      isHeadersEditorEnabled: true,
      customScalarSchemas: scalars,
      inputValueDeprecation: true,
      schemaDescription: true,
    },
    createElement(GraphiQL.Logo, null, "RecallQL"),
  ),
);
