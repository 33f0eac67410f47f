import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The build goes into dist, which the Go program embeds. Nothing is inlined as
// a data: script, because the content security policy only allows own files.
export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: {
    target: "safari15",
    outDir: "dist",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
    license: { fileName: "licenses.md" }, // of the packages it contains, for build/notices
  },
  resolve: process.env.VITEST ? { conditions: ["browser"] } : undefined,
  server: { host: "127.0.0.1" },
  test: {
    include: ["src/**/*.test.ts"],
    environment: "node",
    css: { include: [/\/src\/styles\//] }, // read as text by styles.test.ts
    setupFiles: ["src/test-setup.ts"],
    testTimeout: 60_000, // for a busy machine: only what never ends reaches it
  },
});
