// Reads server-sent events from text that comes in pieces.

export interface SentEvent {
  /** Undefined: the event says nothing of it; empty: it takes the last one back. */
  id: string | undefined
  kind: string
  data: string
}

export class Events {
  private rest = ''
  private id: string | undefined
  private kind = ''
  private data: string[] = []

  constructor(private readonly max = 8 << 20) {}

  take(piece: string): SentEvent[] {
    const lines = (this.rest + piece).split('\n')
    this.rest = lines.pop()!
    if (this.rest.length > this.max) throw new Error('an event of the stream is too long')
    const events: SentEvent[] = []
    for (const line of lines) {
      if (line === '') {
        if (this.kind) events.push({ id: this.id, kind: this.kind, data: this.data.join('\n') })
        ;[this.id, this.kind, this.data] = [undefined, '', []]
        continue
      }
      const colon = line.indexOf(':')
      const name = colon < 0 ? line : line.slice(0, colon)
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
      if (name === 'id') this.id = value
      else if (name === 'event') this.kind = value
      else if (name === 'data') this.data.push(value)
    }
    return events
  }
}
