// Where the browser is. The address is the whole state of a page: back, reload, a new tab and a colleague see the same.
import { match, proper, withQuery, type Route } from './route'

const base = new URL('.', document.baseURI)

function read(): Route {
  const path = location.pathname.slice(base.pathname.length)
  if (proper(path) !== path) history.replaceState(null, '', new URL(proper(path) + location.search + location.hash, base))
  return match(location.pathname.slice(base.pathname.length), new URLSearchParams(location.search))
}

let current = $state.raw<Route>(read())
let page = $state(location.pathname)

export const place = {
  get route(): Route { return current },
  /** The path below the console's base. */
  get path(): string { return page.slice(base.pathname.length) },
  /** The address without its query: another one is another page. */
  get page(): string { return page },
}

function here(): void { [current, page] = [read(), location.pathname] }

export function go(href: string, replace = false): void {
  const url = new URL(href, base)
  if (url.href === location.href) return
  if (replace) history.replaceState(null, '', url)
  else history.pushState(null, '', url)
  const before = current.page
  here()
  if (!replace && current.page !== before) scrollTo(0, 0)
}

/** Changes the query of this page. */
export function look(change: (query: URLSearchParams) => void, replace = false): void {
  const query = new URLSearchParams(location.search)
  change(query)
  go(withQuery(location.pathname, query), replace)
}

addEventListener('popstate', here)

// Links within the console do not load the page again.
addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  const link = (event.target as Element).closest?.('a[href]') // also one of a drawing
  if (!link || link.hasAttribute('target')) return
  const to = new URL(link.getAttribute('href')!, document.baseURI)
  if (to.origin !== base.origin || !to.pathname.startsWith(base.pathname)) return
  event.preventDefault()
  go(to.href)
})
