// Reads a stream of JSON, one value a line. Empty lines only keep the stream open.
import { parse } from './digits'

/** Splits text that comes in pieces into lines, of at most lineMax characters each. */
export class Lines {
  private rest = ''
  constructor(private readonly lineMax = 4 << 20) {}

  take(piece: string): string[] {
    const parts = (this.rest + piece).split('\n')
    this.rest = parts.pop()!
    if (this.rest.length > this.lineMax) throw new Error('a line of the stream is too long')
    return parts.filter((line) => line.trim() !== '')
  }
}

export async function* values<T>(answer: Response): AsyncGenerator<T> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
  const lines = new Lines()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      for (const line of lines.take(value)) yield parse<T>(line)
    }
  } finally {
    void reader.cancel().catch(() => undefined)
  }
}
