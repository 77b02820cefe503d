// What a key does. Pure: a key and what was pressed before in, an action out.

export type Action = { go: string } | { do: 'search' | 'filter' | 'next' | 'previous' | 'pause' | 'help' | 'range' | 'select' | 'before' | 'behind' }

export const places: Record<string, [href: string, name: string]> = {
  o: ['./', 'Overview'], e: ['executions', 'Executions'], p: ['pools', 'Pools'], w: ['workers', 'Workers'], n: ['nodes', 'Nodes'],
  s: ['sessions', 'Sessions'], m: ['operations', 'Operations'], b: ['webhooks', 'Webhooks'], d: ['dead-letters', 'Dead letters'], a: ['actions', 'Actions'], r: ['errors', 'Errors'], h: ['history', 'History'], c: ['changes', 'Changes'], v: ['tree', 'Tree'], t: ['settings', 'Settings'],
}

const actions: Record<string, Action> = {
  '/': { do: 'search' }, f: { do: 'filter' }, j: { do: 'next' }, k: { do: 'previous' }, '.': { do: 'pause' }, '?': { do: 'help' }, t: { do: 'range' }, x: { do: 'select' }, '[': { do: 'before' }, ']': { do: 'behind' },
}

/** How long "g" waits for its letter, in milliseconds. */
export const goTime = 1500

/** Reads keys. A letter after "g" goes to a place. */
export class Keys {
  private began = -Infinity

  press(key: string, at: number): Action | undefined {
    const going = at - this.began <= goTime
    this.began = -Infinity
    if (going) return places[key] && { go: places[key][0] }
    if (key === 'g') {
      this.began = at
      return undefined
    }
    return actions[key]
  }
}
