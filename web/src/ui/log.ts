// The lines that a run wrote, as they come, up to a bound: the oldest are dropped first.
import { stringify } from '../api/digits'
import type { Live } from '../api/types'
import type { Said } from './lanes'

/** A line that grows is another one: a page draws anew only what is not the same. */
export interface Line { readonly kind: string; readonly text: string; readonly at?: string }

/** Of how many entries it keeps when they came. */
export const saidMax = 20_000

export class Log {
  dropped = 0
  /** When something was said, oldest first; not what. Cut: there was more. */
  said: Said[] = []
  saidCut = false
  private kept: Line[] = []
  private open: Record<string, Line | undefined> = {}
  private size = 0
  private decoders: Record<string, TextDecoder> = {}

  constructor(private readonly linesMax = 5000, private readonly sizeMax = 2 << 20) {}

  lines(): readonly Line[] { return this.kept.slice() }

  /** Says that entries are missing here. */
  lose(entries: number): void {
    this.dropped += entries
    this.saidCut ||= entries > 0
    this.open = {}
    this.decoders = {}
    if (this.kept.length > 0) this.whole('notice', `${entries} entries are missing here`)
  }

  take(live: Live): void {
    this.note(live)
    switch (live.kind) {
      case 'stdout': case 'stderr':
        this.add(live.kind, this.decode(live.kind, live.data ?? ''), live.at)
        break
      case 'chunk':
        this.whole('chunk', stringify(live.chunk), live.at)
        break
      case 'log':
        this.whole('log', `${live.level ?? 'info'}: ${live.message ?? ''}`, live.at)
        break
      case 'notice': case 'error':
        this.whole('notice', live.message ?? '', live.at)
    }
  }

  private note(live: Live): void {
    if (!['stdout', 'stderr', 'chunk', 'log', 'progress'].includes(live.kind) || !live.at) return
    if (this.said.length >= saidMax) this.saidCut = true
    else this.said.push({ at: Date.parse(live.at), kind: live.kind, ...(live.kind === 'progress' ? { fraction: live.fraction ?? 0 } : {}) })
  }

  /** Adds text that may end within a line. */
  add(kind: string, text: string, at?: string): void {
    if (!text) return
    const parts = text.split('\n')
    for (const [i, part] of parts.entries()) {
      const place = this.open[kind] ? this.kept.lastIndexOf(this.open[kind]) : -1
      if (place >= 0) this.open[kind] = this.lengthen(place, part)
      else if (part || i < parts.length - 1) this.push(this.open[kind] = { kind, text: part, at })
      this.size += part.length
      if (i < parts.length - 1) this.open[kind] = undefined
    }
    this.bound()
  }

  private whole(kind: string, text: string, at?: string): void {
    this.push({ kind, text, at })
    this.size += text.length
    this.bound()
  }

  private lengthen(at: number, part: string): Line {
    const line = this.kept[at]!
    return (this.kept[at] = { ...line, text: line.text + part })
  }

  private push(line: Line): void { this.kept.push(line) }

  private bound(): void {
    while (this.kept.length > this.linesMax || (this.size > this.sizeMax && this.kept.length > 1)) {
      this.size -= this.kept.shift()!.text.length
      this.dropped++
    }
    const last = this.kept[0]
    if (this.size > this.sizeMax && last) { // one line alone
      const end = this.kept[0] = { ...last, text: last.text.slice(-this.sizeMax) }
      for (const kind of Object.keys(this.open)) if (this.open[kind] === last) this.open[kind] = end
      this.size = end.text.length
      this.dropped++
    }
  }

  private decode(kind: string, base64: string): string {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))
    return (this.decoders[kind] ??= new TextDecoder()).decode(bytes, { stream: true })
  }
}
