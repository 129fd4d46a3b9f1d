// Builds the page (index.html and what it imports) into dist/, which src/node/page-server.ts serves.
import { defineConfig } from 'vite'

export default defineConfig({
  base: './',
  build: {
    target: 'es2022',
    outDir: 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0, // the page's policy allows no data: URLs
    modulePreload: false,
  },
})
