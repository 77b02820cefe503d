// Whether the page stands still. Poll and live look here, so that all that asks or follows by itself stops, on every page.
import { now } from '../api/client'
import { place } from './place.svelte'

let held = $state.raw<{ since: number; page: string } | undefined>()

export const pause = {
  /** Since when the page stands still, by the store's clock; 0: it does not. Another page goes on. */
  get since(): number { return held?.page === place.page ? held.since : 0 },
  turn(): void { held = pause.since ? undefined : { since: now(), page: place.page } },
}

// A page that was left is loaded anew when somebody comes back to it.
$effect.root(() => {
  $effect(() => { if (held && held.page !== place.page) held = undefined })
})
