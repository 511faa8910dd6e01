import { defineConfig } from "vite";

export default defineConfig({
  // Relative addresses, so that the page works behind any path prefix.
  base: "./",
  build: {
    outDir: "../graph/static/graphiql",
    emptyOutDir: true,
    // No data: URLs, which the page's content security policy forbids for fonts.
    assetsInlineLimit: 0,
    license: { fileName: "LICENSES.md" },
    chunkSizeWarningLimit: 4000,
    rolldownOptions: {
      // Libraries mark modules for React's server components; there is no server here.
      onwarn: (warning, warn) => warning.code === "MODULE_LEVEL_DIRECTIVE" || warn(warning),
    },
  },
});
