// The shared worker: one live stream for all tabs of a browser, so that they do not use up its few connections to the node.
import { Follower, type Said, type Told } from './follower'
import { opener } from './world'

const follower = new Follower({ open: opener(new URL('../..', self.location.href)), now: Date.now, random: Math.random })

interface Connecting extends Event { ports: readonly MessagePort[] }

addEventListener('connect', (event) => {
  const port = (event as Connecting).ports[0]!
  const tell = (told: Told) => port.postMessage(told)
  port.onmessage = (message: MessageEvent<Said>) => {
    follower.hear(tell, message.data)
    if ('bye' in message.data) port.close()
  }
})
setInterval(() => follower.sweep(), 10_000)
