/** Opens streams of the node whose API is below an address. */
export function opener(root: URL): (path: string, last: string, stop: AbortSignal) => Promise<Response> {
  return (path, last, signal) => fetch(new URL(path, root), {
    headers: { Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) }, credentials: 'same-origin', cache: 'no-store', signal,
  })
}
