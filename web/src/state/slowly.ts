// What is spoken of a text that changes: the newest of it, and nothing within five seconds of the last.

/** How long a live region is silent after it has spoken, in milliseconds. */
export const silence = 5000

/** When a text is spoken that has come now, if another one was spoken then. */
export const spokenIn = (then: number, now: number): number => Math.max(0, then + silence - now)
