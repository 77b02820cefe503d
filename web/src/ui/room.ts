/** The charts that every range has, in their order. */
export const chartTitles = ['Outcomes', 'In and out', 'Wait', 'Run'] as const

/** Those that a pool has too. */
export const poolTitles = ['Workers', 'Waiting'] as const
