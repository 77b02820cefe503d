/** The charts that every range has, in their order. */
export const chartTitles = ['Outcomes', 'In and out', 'Wait', 'Run'] as const

/** Those that a pool has too. */
export const poolTitles = ['Workers', 'Waiting'] as const

/** The charts in their places: those that are there, and the room of those that are on their way. What has no room of its own comes last. */
export function placesOf<C extends { title: string }>(titles: readonly string[], charts: readonly C[]): { title: string; chart: C | undefined }[] {
  const known = new Map(charts.map((chart) => [chart.title, chart]))
  return [...titles.map((title) => ({ title, chart: known.get(title) })), ...charts.filter(({ title }) => !titles.includes(title)).map((chart) => ({ title: chart.title, chart }))]
}
