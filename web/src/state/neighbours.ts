// The things of the list that was seen last, so that the page of one leads to the next one.

let places: readonly string[] = []

export const neighbours = {
  /** Takes the addresses of the rows, relative to the console's base. */
  keep(list: readonly string[]): void { places = list },
  /** The address that stands so many rows further than another; undefined: there is none. */
  of(href: string, by: number): string | undefined {
    const at = places.indexOf(href)
    return at < 0 ? undefined : places[at + by]
  },
}
