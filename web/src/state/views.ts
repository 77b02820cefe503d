// What a page has open, as its address says it: panels beside a list, the tables of charts, and how the output of an execution is read. What is usual is left out.

/** The panels of a list: its filters, where these are in a drawer, and what it has, counted; none: neither, where one is usual. */
export const panels: readonly string[] = ['filters', 'facets', 'none']

/** The word for the table of a chart. */
export const tableOf = (title: string): string => title.toLowerCase().replaceAll(' ', '-')

/** The charts whose tables can be open. */
export const tables: readonly string[] = ['Outcomes', 'In and out', 'Wait', 'Run', 'Workers', 'Waiting', 'Run p95 by version'].map(tableOf)

const [timeline, noTimeline] = ['timeline', 'no-timeline'] as const

/** The words for the table of a timeline, where it is open or closed and usually is not. */
export const steps: readonly string[] = [timeline, noTimeline]

/** What is open on any page that has it. It is no filter. */
export const views: readonly { name: string; values: readonly string[] }[] = [{ name: 'panel', values: panels }, { name: 'table', values: [...tables, ...steps] }]

/** Whether the table of a chart is open. */
export const isOpen = (query: URLSearchParams, title: string): boolean => (query.get('table') ?? '').split(',').includes(tableOf(title))

/** Opens or closes the table of a chart. */
export function turnTable(query: URLSearchParams, title: string, open: boolean): void {
  const others = (query.get('table') ?? '').split(',').filter((name) => name && name !== tableOf(title))
  const next = open ? [...others, tableOf(title)] : others
  if (next.length) query.set('table', tables.filter((name) => next.includes(name)).join(','))
  else query.delete('table')
}

/** Whether the table of a timeline is open: usually on a small screen, where it is read more easily than the drawing. */
export const stepsOpen = (query: URLSearchParams, small: boolean): boolean => query.get('table') === timeline || (small && query.get('table') !== noTimeline)

/** Opens or closes the table of a timeline. Its page has no other table. */
export function turnSteps(query: URLSearchParams, open: boolean, small: boolean): void {
  if (open === small) query.delete('table')
  else query.set('table', open ? timeline : noTimeline)
}

/** Whether what a list has is shown, counted: usually where there is room beside its rows. */
export function countsOpen(query: URLSearchParams, wide: boolean): boolean {
  const panel = query.get('panel')
  return panel === 'facets' || (wide && panel === null)
}

/** Opens or closes what a list has. In a drawer, the filters stay open. */
export function turnCounts(query: URLSearchParams, open: boolean, room: { wide: boolean; drawer: boolean }): void {
  const panel = open ? (room.wide ? '' : 'facets') : room.drawer ? 'filters' : room.wide ? 'none' : ''
  if (panel) query.set('panel', panel)
  else query.delete('panel')
}

/** How the output of an execution is read. */
export interface Reading { shown: boolean; wrap: boolean; raw: boolean; times: boolean; follow: boolean }

const usual = (shown: boolean): Reading => ({ shown, wrap: true, raw: false, times: false, follow: true })
const words: readonly [string, keyof Reading, boolean][] = [['open', 'shown', true], ['closed', 'shown', false], ['nowrap', 'wrap', false], ['raw', 'raw', true], ['times', 'times', true], ['nofollow', 'follow', false]]

/** The words of an address for how output is read. */
export const readings: readonly string[] = words.map(([word]) => word)

/** How an address has it read. Shown: whether it is usually open. */
export function readingOf(query: URLSearchParams, shown: boolean): Reading {
  const said = (query.get('output') ?? '').split(','), reading = usual(shown)
  for (const [word, name, value] of words) if (said.includes(word)) reading[name] = value
  return reading
}

/** Writes how it is read into an address. */
export function turnReading(query: URLSearchParams, shown: boolean, reading: Reading): void {
  const common = usual(shown)
  const said = words.filter(([, name, value]) => reading[name] === value && common[name] !== value).map(([word]) => word)
  if (said.length) query.set('output', said.join(','))
  else query.delete('output')
}
