// JSON whose numbers keep their digits. The language reads 9007199254740993 as 9007199254740992, and 1e400 as Infinity, which it writes as
// null. Such a number is kept as a text with a mark, until it is written.

const mark = '\ue000number:'
const number = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/
const suspect = /[\d.]{16}|\d[eE][+-]?\d{3}/ // without one of these no number is altered
const tokens = new RegExp(`"(?:[^"\\\\]|\\\\.)*"|${number.source}`, 'g')
const marked = new RegExp(`"${mark}(${number.source})"`, 'g')

/** Reads JSON. A number that would become another one is a text with a mark: only stringify knows it. */
export function parse<T>(text: string): T {
  return JSON.parse(suspect.test(text) ? text.replace(tokens, (token) => (token.startsWith('"') || faithful(token) ? token : `"${mark}${token}"`)) : text) as T
}

/** Writes JSON, with the digits that parse has read. */
export function stringify(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(marked, '$1')
}

const faithful = (token: string): boolean => normal(token) === normal(String(Number(token)))

/** A number as its digits without zeros around them, and the power of ten behind them: 1.0 and 1 are one. */
function normal(token: string): string {
  const [mantissa = '', power = '0'] = token.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const all = (whole + fraction).replace(/^0+/, '')
  const digits = all.replace(/0+$/, '')
  return digits === '' ? '0' : `${mantissa.startsWith('-') ? '-' : ''}${digits}e${Number(power) - fraction.length + all.length - digits.length}`
}
