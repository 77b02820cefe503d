import { expect, test } from 'vitest'

const parts = import.meta.glob<string>(['../pages/*.svelte', '../ui/*.svelte'], { query: '?raw', import: 'default', eager: true })

// Poll and live stop while the page is paused. A part that asks or changes by a way of its own must look at the pause itself.
test('no part of a page goes on by itself while the page is paused', () => {
  expect(Object.keys(parts).length).toBeGreaterThan(50)
  const own = Object.entries(parts).filter(([, text]) => /setInterval\(|unbounded: true|EventSource|WebSocket/.test(text))
  expect(own.map(([name]) => name)).toContain('../ui/Output.svelte')
  for (const [name, text] of own) expect(text, name).toContain('pause.since')
})
