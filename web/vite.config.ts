import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

// The build is the same on every machine: no source maps with paths, names by content, and the licences of what is in it.
export default defineConfig({
  base: './', // the page has a <base>, so the console works below any path
  plugins: [svelte()],
  build: {
    target: 'es2022',
    outDir: 'dist',
    emptyOutDir: true,
    sourcemap: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // a data: address would break the page's policy
    license: { fileName: 'licenses.txt' },
  },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
} as never)
