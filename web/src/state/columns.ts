// The columns of a list: which are shown is kept as the difference from what is shown without a choice, so that a later version's new columns come too.

export interface Column {
  name: string
  label: string
  /** It is always shown. */
  fixed?: boolean
  /** It is shown only if somebody chooses it. */
  off?: boolean
  /** Its cells are numbers or times. */
  n?: boolean
  /** Its label is for screen readers. */
  bare?: boolean
  /** In pixels, where the table does not find it out. */
  width?: number
}

/** The difference that a choice was kept as: names with + or -. What is not known any more is left out. */
function read(kept: string, columns: readonly Column[]): Set<string> {
  const known = columns.filter((c) => !c.fixed).map((c) => (c.off ? `+${c.name}` : `-${c.name}`))
  return new Set(kept.split(',').filter((word) => known.includes(word)))
}

/** The columns that are shown, in their order. */
export function chosen(columns: readonly Column[], kept: string): Column[] {
  const differs = read(kept, columns)
  return columns.filter((c) => (c.off ? differs.has(`+${c.name}`) : !differs.has(`-${c.name}`)))
}

/** What is kept once a column is shown or not; empty: nothing differs. */
export function turned(columns: readonly Column[], kept: string, name: string, on: boolean): string {
  const column = columns.find((c) => c.name === name)
  const differs = read(kept, columns)
  if (column && !column.fixed) {
    const word = `${column.off ? '+' : '-'}${name}`
    if (on === Boolean(column.off)) differs.add(word)
    else differs.delete(word)
  }
  return [...differs].sort().join(',')
}
