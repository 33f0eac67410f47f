import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Writes each file of dist, compressed, to packed, which the Go program embeds. */
function pack(): Plugin {
  return {
    name: "pack",
    apply: "build",
    closeBundle() {
      const [from, to] = ["dist", "packed"].map((name) => path.join(import.meta.dirname, name));
      for (const old of readdirSync(to)) if (old !== ".gitkeep") rmSync(path.join(to, old), { recursive: true });
      for (const name of readdirSync(from, { recursive: true, encoding: "utf8" })) {
        if (name === ".gitkeep" || !statSync(path.join(from, name)).isFile()) continue;
        const file = path.join(to, `${name}.gz`);
        mkdirSync(path.dirname(file), { recursive: true });
        writeFileSync(file, gzipSync(readFileSync(path.join(from, name)), { level: 9 }));
      }
    },
  };
}

// Nothing is inlined as a data: script, because the content security policy only allows own files.
export default defineConfig({
  plugins: [svelte(), pack()],
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
