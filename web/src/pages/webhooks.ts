// How far a call to the address of a webhook is, told in words.
import type { Webhook } from '../api/types'

/** Whether something may still happen by itself. */
export const open = (h: Webhook) => h.state === 'waiting' || h.state === 'due'

/** Whether it can be called again. */
export const repeatable = (h: Webhook) => h.state === 'told' || h.state === 'given_up'

const words: Record<Webhook['state'], string> = {
  waiting: 'waits for the end of the execution', due: 'is to be called', told: 'was told', given_up: 'was given up',
  passed: 'is not called: the outcome was not asked for, or a retry is told instead',
}

/**
 * Whether its first call is under way: a node that takes it moves the next one ahead, to when the call has surely ended. Of a later
 * call that cannot be told: the next one is ahead after a failed call, too.
 */
export const calling = (h: Webhook, now: number): boolean =>
  h.state === 'due' && h.tries === 0 && h.since !== undefined && h.next_at !== undefined && Date.parse(h.next_at) > Math.max(now, Date.parse(h.since))

/** How far it is, with the tries. */
export function told(h: Webhook, now: number): string {
  if (calling(h, now)) return 'is being called'
  const tries = h.tries > 0 ? `, after ${h.tries} ${h.tries === 1 ? 'try' : 'tries'}` : ''
  return `${words[h.state] ?? h.state}${tries}`
}

/** What came of the last call. */
export const last = (h: Webhook): string => [h.code ? `HTTP ${h.code}` : '', h.error ?? ''].filter(Boolean).join(': ')
