// Whether the window is as narrow as a phone's: filters are in a drawer there. app.css has the same width.
import { MediaQuery } from 'svelte/reactivity'

export const narrow = new MediaQuery('(width < 760px)')

/** Whether there is room for what a list has, counted, above its rows. app.css has the same width. */
export const wide = new MediaQuery('(width >= 1024px)')

/** Whether a timeline goes down and not across: its table stands in the place of its lanes. app.css has the same width. */
export const small = new MediaQuery('(width < 700px)')
