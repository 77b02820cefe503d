// What is known of a node only from before.
import type { Node, Sight, Sights } from '../api/types'
import type { Column } from '../state/columns'
import type { Span } from '../state/range'

export const columns: readonly Column[] = [
  { name: 'node', label: 'Node', fixed: true },
  { name: 'state', label: 'State' },
  { name: 'version', label: 'Version' },
  { name: 'address', label: 'Address' },
  { name: 'reach', label: 'Reach' },
  { name: 'started', label: 'Started', n: true },
  { name: 'heartbeat', label: 'Heartbeat', n: true },
  { name: 'commands', label: 'Commands', fixed: true, bare: true },
]

const heard = ['self', 'reached', 'store_only', 'not_heard', 'store_lost_here']

/** Why what is shown of a node may be old; undefined: it answers, and renews its lease. */
export function staleOf(n: Node): string | undefined {
  if (n.state === 'dead') return n.why || 'it has ended'
  if (n.reach && !heard.includes(n.reach)) return n.why || n.reach
  if (n.store_seen === false) return n.why || 'it does not renew its lease'
  return undefined
}

/** So long after its end a lost node is news, whichever range is chosen, in milliseconds. */
export const lostFor = 15 * 60_000

/** The nodes that a first view lists: those that live, and those that were lost in its range or a short time ago. Left are the others. */
export function newsOf(nodes: readonly Node[], span: Pick<Span, 'from' | 'to'>, now: number): { shown: Node[]; left: number } {
  const shown = nodes.filter((n) => {
    if (n.state !== 'dead') return true
    const last = Date.parse(n.beat_at)
    return n.ended !== 'stopped' && (last >= now - lostFor || (last >= span.from && last < span.to))
  })
  return { shown, left: nodes.length - shown.length }
}

export interface Line { from: Pick<Sights, 'node' | 'incarnation'>; to: Sight; reached: boolean }

/** Who reaches whom, what is not reached first; of one node: only where it is at an end. */
export function linesOf(nodes: readonly Sights[], of?: string): Line[] {
  const lines = nodes.flatMap((from) => from.others.map((to) => ({ from, to, reached: to.reach === 'reached' })))
  const ends = (l: Line) => of === undefined || l.from.incarnation === of || l.to.incarnation === of
  return lines.filter(ends).sort((a, b) => Number(a.reached) - Number(b.reached))
}
