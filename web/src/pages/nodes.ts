// What is known of a node only from before.
import type { Node } from '../api/types'

const heard = ['self', 'reached', 'store_only', 'not_heard', 'store_lost_here']

/** Why what is shown of a node may be old; undefined: it answers, and renews its lease. */
export function staleOf(n: Node): string | undefined {
  if (n.state === 'dead') return n.why || 'it has ended'
  if (n.reach && !heard.includes(n.reach)) return n.why || n.reach
  if (n.store_seen === false) return n.why || 'it does not renew its lease'
  return undefined
}
