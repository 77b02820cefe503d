import { describe, expect, it } from 'vitest'
import { countsOpen, isOpen, readingOf, stepsOpen, tableOf, tables, turnCounts, turnReading, turnSteps, turnTable } from './views'

const changed = (text: string, change: (q: URLSearchParams) => void) => {
  const query = new URLSearchParams(text)
  change(query)
  return decodeURIComponent(query.toString())
}

describe('the tables of charts', () => {
  for (const [query, title, want] of [['', 'Wait', false], ['table=wait', 'Wait', true], ['table=run,in-and-out', 'In and out', true], ['table=waiting', 'Wait', false]] as const) {
    it(`${query || 'nothing'}: ${title} is ${want ? '' : 'not '}open`, () => expect(isOpen(new URLSearchParams(query), title)).toBe(want))
  }
  for (const [query, title, open, want] of [
    ['', 'Wait', true, 'table=wait'], ['table=wait', 'Outcomes', true, 'table=outcomes,wait'], ['table=wait', 'Wait', true, 'table=wait'],
    ['table=outcomes,wait&from=-6h', 'Wait', false, 'table=outcomes&from=-6h'], ['table=wait', 'Wait', false, ''], ['table=odd,wait', 'Run', true, 'table=wait,run'],
  ] as const) it(`${query || 'nothing'}: ${open ? 'opens' : 'closes'} ${title}`, () => expect(changed(query, (q) => turnTable(q, title, open))).toBe(want))
  it('have words of their own', () => expect(new Set(tables).size).toBe(tables.length))
  it('have no spaces in them', () => expect(tableOf('In and out')).toBe('in-and-out'))
})

describe('the table of a timeline', () => {
  for (const [query, small, want] of [['', false, false], ['', true, true], ['table=timeline', false, true], ['table=no-timeline', true, false], ['table=no-timeline', false, false], ['table=wait', true, true]] as const) {
    it(`${query || 'nothing'}, ${small ? 'small' : 'large'}: ${want ? 'open' : 'closed'}`, () => expect(stepsOpen(new URLSearchParams(query), small)).toBe(want))
  }
  for (const [query, open, small, want] of [
    ['', true, false, 'table=timeline'], ['table=timeline&at=x', false, false, 'at=x'], ['', false, true, 'table=no-timeline'], ['table=no-timeline', true, true, ''],
  ] as const) it(`${query || 'nothing'}, ${small ? 'small' : 'large'}: ${open ? 'opens' : 'closes'}`, () => expect(changed(query, (q) => turnSteps(q, open, small))).toBe(want))
  it('has words that no chart has', () => expect([...tables].filter((word) => stepsOpen(new URLSearchParams(`table=${word}`), false))).toEqual([]))
})

describe('what a list has, counted', () => {
  for (const [query, wide, want] of [['', true, true], ['', false, false], ['panel=facets', false, true], ['panel=facets', true, true], ['panel=none', true, false], ['panel=none', false, false], ['panel=filters', true, false]] as const) {
    it(`${query || 'nothing'}, ${wide ? 'wide' : 'narrow'}: ${want ? 'open' : 'closed'}`, () => expect(countsOpen(new URLSearchParams(query), wide)).toBe(want))
  }
  for (const [query, open, room, want] of [
    ['', false, 'wide', 'panel=none'], ['panel=none', true, 'wide', ''], ['', true, 'middle', 'panel=facets'], ['panel=facets', false, 'middle', ''],
    ['panel=filters', true, 'drawer', 'panel=facets'], ['panel=facets', false, 'drawer', 'panel=filters'], ['panel=facets&pool=go', false, 'wide', 'panel=none&pool=go'],
  ] as const) it(`${query || 'nothing'}, ${room}: ${open ? 'opens' : 'closes'}`, () => expect(changed(query, (q) => turnCounts(q, open, { wide: room === 'wide', drawer: room === 'drawer' }))).toBe(want))
})

describe('how output is read', () => {
  for (const [query, shown, want] of [
    ['', true, 'shown wrap follow'], ['', false, 'wrap follow'], ['output=open', false, 'shown wrap follow'], ['output=closed', true, 'wrap follow'],
    ['output=raw,times', false, 'wrap raw times follow'], ['output=nowrap,nofollow,odd', true, 'shown'],
  ] as const) {
    it(`${query || 'nothing'}${shown ? ', usually open' : ''}`, () => {
      const reading = readingOf(new URLSearchParams(query), shown)
      expect(Object.entries(reading).filter(([, on]) => on).map(([name]) => name).join(' ')).toBe(want)
      expect(changed('', (q) => turnReading(q, shown, reading))).toBe(query.replace(',odd', ''))
    })
  }
})
