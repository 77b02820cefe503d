import { describe, expect, it } from 'vitest'
import { Log, saidMax } from './log'

const at = '2026-11-25T17:00:00Z'
const b64 = (bytes: number[]) => btoa(String.fromCharCode(...bytes))

describe('Log', () => {
  it('joins a line that comes in pieces', () => {
    const log = new Log()
    log.add('stdout', 'a')
    log.add('stderr', 'x\n')
    log.add('stdout', 'b\nc')
    expect(log.lines()).toEqual([{ kind: 'stdout', text: 'ab' }, { kind: 'stderr', text: 'x' }, { kind: 'stdout', text: 'c' }])
  })
  it('makes another line of one that grows, so that it is drawn anew', () => {
    const log = new Log()
    log.add('stdout', 'a')
    const [before] = log.lines()
    log.add('stdout', 'b')
    const [after] = log.lines()
    expect([before, after]).toEqual([{ kind: 'stdout', text: 'a' }, { kind: 'stdout', text: 'ab' }])
  })
  it('begins a line anew whose beginning was dropped', () => {
    const log = new Log(2)
    log.add('stderr', 'a')
    log.add('stdout', '1\n2\n')
    log.add('stderr', 'b\n')
    expect(log.lines().map((l) => l.text)).toEqual(['2', 'b'])
  })
  it('joins a character that comes in pieces', () => {
    const log = new Log()
    log.take({ kind: 'stdout', at, data: b64([0xc3]) })
    log.take({ kind: 'stdout', at, data: b64([0xa4, 0x0a]) })
    expect(log.lines()).toEqual([{ kind: 'stdout', text: 'ä', at }])
  })
  it('keeps empty lines between others', () => {
    const log = new Log()
    log.add('stdout', 'a\n\nb\n')
    expect(log.lines().map((l) => l.text)).toEqual(['a', '', 'b'])
  })
  it('drops the oldest lines at its bound', () => {
    const log = new Log(3)
    log.add('stdout', '1\n2\n3\n4\n')
    expect(log.lines().map((l) => l.text)).toEqual(['2', '3', '4'])
    expect(log.dropped).toBe(1)
  })
  it('bounds one line without end', () => {
    const log = new Log(10, 100)
    for (let i = 0; i < 50; i++) log.add('stdout', 'x'.repeat(10))
    expect(log.lines()[0]!.text).toBe('x'.repeat(100))
    log.add('stdout', 'y')
    expect(log.lines()[0]!.text).toBe('x'.repeat(99) + 'y')
  })
})

it('says where entries are missing', () => {
  const log = new Log()
  log.lose(2)
  expect(log.lines()).toEqual([])
  log.add('stdout', 'a')
  log.lose(3)
  log.add('stdout', 'b')
  expect(log.lines().map((l) => l.text)).toEqual(['a', '3 entries are missing here', 'b'])
  expect(log.dropped).toBe(5)
})

it('keeps when something was said, up to a bound', () => {
  const log = new Log()
  log.take({ kind: 'status', at, status: 'running' })
  log.take({ kind: 'stderr', at, data: b64([0x61]) })
  log.take({ kind: 'progress', at, fraction: 0.5 })
  expect(log.said).toEqual([{ at: Date.parse(at), kind: 'stderr' }, { at: Date.parse(at), kind: 'progress', fraction: 0.5 }])
  for (let i = 0; i < saidMax; i++) log.take({ kind: 'log', at, message: 'm' })
  expect([log.said.length, log.saidCut]).toEqual([saidMax, true])
})
