// What programs emit is shown as text. Characters that would change how the page reads are made visible.
import { stringify } from '../api/digits'

// Control characters except newline and tab; marks that turn the direction of text; characters without width.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

export function visible(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(hidden, (c) => {
    const code = c.codePointAt(0)!
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : code === 0x7f ? '\u2421' : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`
  })
}

// Colours and cursor moves of terminals: ESC [ … letter, ESC ] … BEL.
const escapes = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g

/** Removes the escapes of terminals; the raw view keeps them, made visible. */
export const plain = (text: string): string => text.replace(escapes, '')

export function json(value: unknown): string {
  return value === undefined ? '' : stringify(value, 2)
}

/** A short id: the end differs between ids of the same moment. */
export const short = (id: string): string => (id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id)

/** The text of bytes in base64. What is no UTF-8 is marked. */
export function bytes(base64: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)))
}

/** A text of ours in parts: what stands between backticks is a command or a name, and between asterisks the title of a section. */
export function wordsOf(text: string): { kind: 'text' | 'code' | 'title'; text: string }[] {
  return text.split(/(`[^`]*`|\*[^*\s][^*]*\*)/).flatMap((part, i) =>
    part === '' ? [] : [i % 2 ? { kind: part[0] === '`' ? 'code' as const : 'title' as const, text: part.slice(1, -1) } : { kind: 'text' as const, text: part }])
}
