// What the page follows. One stream serves all tabs of the browser, in a shared worker; where there is none, each visible tab has one.
import { answeredAt, deny, heardAt, onAnswer, root } from '../api/client'
import { Follower, type Heard, type Said, type Standing, type Told } from '../live/follower'
import { isFlow } from '../live/topics'
import { opener } from '../live/world'
import { isAway } from './away'
import { pause } from './pause.svelte'
import { SvelteMap } from 'svelte/reactivity'
import address from '../live/worker?sharedworker&url'

interface Handler { told: (told: Extract<Told, { kind: 'topic' }>) => void; lost: () => void; heard?: (heard: Heard) => void }

/** A hidden tab follows nothing after this time. */
const hiddenMax = 30_000
const speakEvery = 10_000

let standing = $state.raw<Standing>({ state: 'idle', since: 0, again: 0, refused: false, build: '', message: '' })
let first = $state('')
let answered = $state(answeredAt())
onAnswer((at) => { answered = at })
/** When questions were asked that had no answer, by who asks them again. */
const failed = new SvelteMap<object, number>()
const away = $derived(isAway({ answered, failed: failed.values(), lost: standing.state === 'lost' && !standing.refused ? standing.since : undefined }))
const handlers = new Map<string, Set<Handler>>()
const latest = new Map<string, Extract<Told, { kind: 'topic' }>>()
let speak: ((said: Said) => void) | undefined
let left = false // hidden for so long that nothing is followed
let leaving = 0

function hear(told: Told): void {
  if (told.kind === 'standing') {
    standing = told.standing
    first ||= standing.build
    if (standing.state === 'denied' && !standing.refused) deny()
    if (standing.state === 'lost' && !pause.since) for (const set of handlers.values()) for (const h of set) h.lost()
    return
  }
  const set = handlers.get(told.topic)
  if (!set || pause.since) return // what was under way when the page was paused
  if (told.kind === 'said') {
    for (const h of set) h.heard?.(told.heard)
    return
  }
  if (told.at) heardAt(told.at)
  const before = latest.get(told.topic)
  latest.set(told.topic, { ...told, doc: told.doc ?? before?.doc })
  for (const h of set) h.told(told)
}

function inPage(): (said: Said) => void {
  const follower = new Follower({ open: opener(root), now: Date.now, random: Math.random })
  return (said) => follower.hear(hear, said)
}

function inWorker(): (said: Said) => void {
  try {
    const worker = new SharedWorker(allowed(address), { type: 'module', name: 'troupe-live' })
    worker.port.onmessage = (message: MessageEvent<Told>) => hear(message.data)
    worker.onerror = () => { // it does not start here
      speak = inPage()
      say()
    }
    return (said) => worker.port.postMessage(said)
  } catch {
    return inPage()
  }
}

interface Policy { createScriptURL: (url: string) => unknown }
interface Types { createPolicy: (name: string, rules: { createScriptURL: (url: string) => string }) => Policy }

/** A page makes it once, also if it comes back from the browser's cache. */
let policy: Policy | undefined

/** The worker's address, as the page's policy wants it: no other one can become a script. */
function allowed(url: string): string {
  const types = (globalThis as { trustedTypes?: Types }).trustedTypes
  if (!types) return url
  policy ??= types.createPolicy('troupe-worker', {
    createScriptURL: (wanted) => {
      if (wanted !== address) throw new TypeError('only the worker of the console is a script')
      return wanted
    },
  })
  return policy.createScriptURL(url) as string
}

function say(more: { retry?: boolean } = {}): void {
  if (handlers.size === 0 && !speak) return
  speak ??= 'SharedWorker' in globalThis ? inWorker() : inPage()
  speak({ topics: left || pause.since ? [] : [...handlers.keys()], ...more })
}

let due = false
/** Says what is wanted, once for all that a page begins and ends with at a time. What the next page follows too stays known. */
function changed(): void {
  if (due) return
  due = true
  queueMicrotask(() => {
    due = false
    for (const [topic, set] of handlers) if (set.size === 0) drop(topic)
    say()
  })
}

function drop(topic: string): void {
  handlers.delete(topic)
  latest.delete(topic)
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(leaving)
  if (document.hidden) {
    leaving = setTimeout(() => { left = true; say() }, hiddenMax)
    return
  }
  left = false
  say()
})
addEventListener('pagehide', () => speak?.({ bye: true }))
addEventListener('pageshow', (event) => { // from the browser's cache: the follower has heard the goodbye
  if (!event.persisted) return
  speak = undefined
  say()
})
setInterval(() => say(), speakEvery)
$effect.root(() => {
  $effect(() => { void pause.since; changed() })
})

export const live = {
  get standing(): Standing { return standing },
  get refused(): boolean { return standing.refused },
  /** The node does not answer: the last question or the stream failed, and nothing was answered since. */
  get away(): boolean { return away },
  /** Says that a question had no answer that was asked at a time of this browser. Only who asks again may say so: else nothing would tell that the node is back. Undefined: it is asked no more. */
  unanswered(who: object, asked: number | undefined): void { if (asked === undefined) failed.delete(who); else failed.set(who, asked) },
  /** Another program than at first answers: the page may be an old one. */
  get other(): boolean { return first !== '' && standing.build !== first },
  /** Opens the stream anew: the browser has another login, or none any more. */
  renew(): void { if (speak) say({ retry: true }) },
  retry(): void { if (standing.state === 'lost' || standing.state === 'denied') say({ retry: true }) },
  /** Follows a topic until the returned function is called. What an execution says is told from its beginning, to one follower in a page. */
  follow(topic: string, handler: Handler): () => void {
    const set = handlers.get(topic) ?? new Set()
    handlers.set(topic, set.add(handler))
    const known = latest.get(topic)
    if (known) handler.told(known)
    if (standing.state === 'lost') handler.lost()
    changed()
    return () => {
      set.delete(handler)
      if (set.size > 0) return
      if (!isFlow(topic)) { changed(); return }
      drop(topic)
      say() // so that one who follows it next is told all
    }
  },
}
