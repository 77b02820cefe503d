// The executions of the list that was seen last, so that a page of one leads to the next one.

let ids: readonly string[] = []

export const neighbours = {
  keep(list: readonly string[]): void { ids = list },
  /** The id that stands so many rows further; undefined: there is none. */
  of(id: string, by: number): string | undefined {
    const at = ids.indexOf(id)
    return at < 0 ? undefined : ids[at + by]
  },
}
