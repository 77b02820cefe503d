// Whether the node answers, by the latest evidence of it.

/** What is known of the node's answers. Times are this browser's. */
export interface Evidence {
  /** When it last answered anything. */
  answered: number
  /** When those questions were asked that had no answer, and that are asked again. */
  failed: Iterable<number>
  /** Since when the stream is lost; undefined: it is not. */
  lost: number | undefined
}

/** The node does not answer: a question or the stream failed, and nothing was answered since. A stream alone may be broken for ever, and a question may be one that takes too long. */
export function isAway({ answered, failed, lost }: Evidence): boolean {
  return Math.max(0, lost ?? 0, ...failed) > answered
}
