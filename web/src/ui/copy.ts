// Puts text on the clipboard, also where a page without TLS has none.
import { say } from '../state/session.svelte'

export async function copy(text: string, what: string): Promise<void> {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text)
    else byHand(text)
    say(`${what} copied`)
  } catch {
    say(`The browser did not let the page copy ${what.toLowerCase()}`, { bad: true })
  }
}

function byHand(text: string): void {
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'offscreen'
  document.body.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  if (!done) throw new Error('refused')
}
