// A form for the parameters of an action, from the parts of its JSON Schema that a form can show.
import { parse, stringify } from '../api/digits'
import type { Schema } from '../api/types'

export interface Field {
  name: string
  kind: 'text' | 'number' | 'boolean' | 'choice' | 'json'
  required: boolean
  help: string
  choices: string[]
  secret: boolean
  start: string
}

export function fieldsOf(schema: Schema | undefined, secrets: readonly string[] = []): Field[] {
  return Object.entries(schema?.properties ?? {}).map(([name, s]) => ({
    name, kind: kindOf(s), required: schema?.required?.includes(name) ?? false, help: helpOf(s), secret: secrets.includes(name),
    choices: s.enum?.map((v) => stringify(v)) ?? [], start: s.default === undefined ? '' : kindOf(s) === 'text' ? String(s.default) : stringify(s.default),
  }))
}

function kindOf(s: Schema): Field['kind'] {
  if (s.enum) return 'choice'
  switch (s.type) {
    case 'string': return 'text'
    case 'number': case 'integer': return 'number'
    case 'boolean': return 'boolean'
  }
  return 'json'
}

function helpOf(s: Schema): string {
  const parts = [s.description, s.minimum !== undefined && `at least ${s.minimum}`, s.maximum !== undefined && `at most ${s.maximum}`,
    s.maxLength !== undefined && `up to ${s.maxLength.toLocaleString('en')} characters`, s.pattern && `matches ${s.pattern}`]
  return parts.filter(Boolean).join('; ')
}

/** The parameters of what was typed. An empty field is left out. Rest is JSON for what the schema does not name. */
export function parametersOf(fields: readonly Field[], typed: Record<string, string>, rest: string): { value?: Record<string, unknown>; wrong?: string } {
  let value: Record<string, unknown> = {}
  if (rest.trim()) {
    try {
      value = parse<Record<string, unknown>>(rest)
    } catch {
      return { wrong: 'The further parameters are not JSON' }
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { wrong: 'The further parameters must be a JSON object' }
  }
  for (const f of fields) {
    const text = typed[f.name] ?? ''
    if (text === '') {
      if (f.required) return { wrong: `${f.name} is required` }
      continue
    }
    if (f.kind === 'text') {
      value[f.name] = text
      continue
    }
    try {
      value[f.name] = parse<unknown>(text)
    } catch {
      return { wrong: `${f.name} must be ${f.kind === 'number' ? 'a number' : 'JSON'}` }
    }
  }
  return { value }
}
