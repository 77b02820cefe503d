import { untrack } from 'svelte'
import type { Attachment } from 'svelte/attachments'
import { on } from 'svelte/events'

/**
 * Opens and closes a `<details>` as open says, and tells when the reader does. An attribute `open={…}` will not do: it is set
 * again when anything else of the element changes, and in the moment between a click and its event it would undo the click.
 */
export function opened(open: () => boolean, told: (now: boolean) => void): Attachment<HTMLDetailsElement> {
  return (details) => {
    $effect(() => { details.open = open() })
    return on(details, 'toggle', () => {
      if (details.isConnected && details.open !== untrack(open)) told(details.open) // the page may be another one already
    })
  }
}
