// What was at one moment of a timeline, in words. Pure.
import type { PastLine, Run, State } from '../api/types'
import type { Fleet } from '../pages/past'
import { duration } from '../state/time'
import { epochOf, generationOf, type Drawn } from './lanes'

const time = (text: string) => Date.parse(text)
const holds = (i: { from: string; to?: string }, at: number, last: boolean) => time(i.from) <= at && (!i.to || at < time(i.to) || (last && at <= time(i.to)))

/** A reason for people. */
const words = (text: string) => text.replaceAll('_', ' ')

/** What the execution itself did at a moment, and then what was around it. Now is the end of what is known. */
export function readout(t: Drawn, at: number, now: number): string[] {
  const whole = t.whole ?? t.window
  const end = time(whole.to)
  const last = at >= end
  const out: string[] = []
  if (t.missing?.some((m) => holds(m, at, false))) return ['this time is not loaded']
  const run = t.run.find((r) => holds(r, at, last))
  const wait = t.wait.find((w) => holds(w, at, last))
  if (run) out.push(running(t, run, at, now))
  else if (wait) out.push(`${duration(at - time(whole.from))} after its request${wait.cause === 'unknown' ? '' : `: ${words(wait.cause)}`} (${wait.evidence})`)
  else if (at < time(whole.from)) out.push('not requested yet')
  const placed = t.attempts.find((a) => {
    const from = a.scheduled_at ?? a.started_at
    return from !== undefined && holds({ from, to: a.ended_at }, at, last)
  })
  if (placed) out.push(`attempt ${placed.attempt} on ${placed.worker ?? 'no worker'}${placed.generation ? ` g${placed.generation}` : ''}`)
  for (const s of t.worker.filter((s) => holds(s, at, last))) out.push(`${s.of}${generationOf(s)} ${s.what}`)
  for (const s of t.session.filter((s) => holds(s, at, last))) out.push(`session ${epochOf(s)}${s.what}`)
  for (const s of t.servers.filter((s) => holds(s, at, last))) out.push(`${s.of} ${s.what}${s.by ? `, seen by ${s.by}` : ''}`)
  for (const s of t.node.filter((s) => s.to && holds(s, at, last))) out.push(`node ${s.of} ${s.what}`)
  const node = latest(t.node.filter((s) => !s.to), at)
  if (node) out.push(`node ${node.of}: ${node.what} ${duration(at - time(node.from))} before`)
  const beside = (t.neighbours ?? []).filter((n) => holds({ from: n.started_at, to: n.finished_at }, at, false))
  if (beside.length) out.push(`its worker ran ${beside.map((n) => n.action_ref).join(', ')}`)
  return out
}

/** How long it had run, how far it said it was, and what it had written. */
function running(t: Drawn, run: Run, at: number, now: number): string {
  const said = (t.output ?? []).filter((o) => o.at <= at && o.at >= time(run.from))
  const fraction = said.findLast((o) => o.fraction !== undefined)?.fraction
  const lines = said.filter((o) => o.fraction === undefined).length
  return [
    `${run.outcome || at < now - 1000 ? 'running' : 'runs'} ${duration(at - time(run.from))}${run.outcome === 'lost' ? ', a run that was lost' : ''}`,
    ...(fraction === undefined ? [] : [`${Math.round(fraction * 100)} %`]),
    ...(lines ? [`${t.outputCut ? 'at least ' : ''}${lines.toLocaleString('en')} ${lines === 1 ? 'entry' : 'entries'} written`] : []),
  ].join(', ')
}

/** How many workers of a pool were busy, by the fleet at that time; undefined: none of its workers is known. Of some it is only known that they were ready or busy. */
export function busyOf(f: Pick<Fleet, 'pools' | 'partial'>, pool: string): string | undefined {
  const letters = f.pools.filter((p) => p.name === pool).flatMap((p) => [...p.slots]).filter((letter) => letter !== '-')
  const count = (wanted: string) => letters.filter((letter) => letter === wanted).length
  const [busy, maybe, unknown] = [count('b'), count('u'), count('?')]
  if (letters.length === unknown) return undefined
  const n = maybe === 0 ? `${busy}` : `${busy ? `${busy} to` : 'up to'} ${busy + maybe}`
  return `pool ${n} of ${letters.length} busy${unknown ? `, ${unknown} unknown` : ''}${f.partial ? ', as far as was recorded' : ''}`
}

/** Whether the execution waited at a moment, as far as is loaded. */
export const waitsAt = (t: Pick<Drawn, 'wait' | 'run'>, at: number): boolean => t.wait.some((w) => holds(w, at, false)) && !t.run.some((r) => holds(r, at, false))

/** How many were before it in line; undefined: it stood in none. */
export function beforeIt(v: PastLine): string | undefined {
  if (!v.line) return undefined
  const { ahead, at_least, of } = v.line
  const where = of === 'session' ? ' in its session' : ''
  if (ahead === 0) return `${at_least ? 'others may have been' : 'none was'} before it${where}`
  return `${at_least ? 'at least ' : ''}${ahead.toLocaleString('en')} ${ahead === 1 ? 'was' : 'were'} before it${where}`
}

/** The last event before a moment. */
function latest(events: readonly State[], at: number): State | undefined {
  return events.filter((s) => time(s.from) <= at).at(-1)
}
