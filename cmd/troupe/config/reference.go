package config

import (
	"fmt"
	"slices"
	"strings"
)

// Defaults lists every key with its default value.
func Defaults() []*Key {
	return keysOf(&Config{})
}

// first are the keys that people set before any other, in the order of the page.
var first = []string{
	"listen", "data", "packs", "tokens", "tokens_file", "tls.cert_file", "tls.key_file", "node.name", "node.peers_listen", "log.level",
	"store.url", "message_queue.rabbitmq.url", "executor.default_timeout", "worker.shutdown_timeout", "shutdown.platform_grace",
	"retry.max_retries", "runtime.python", "runtime.env_pass", "pool.python", "retention.executions",
}

// Reference renders docs/configuration.md: how a value is found, the keys that people set first, and all others by their groups.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	keys := Defaults()
	b.WriteString("\n## First\n\nThe keys that are set most often.\n\n" + tableHead)
	for _, path := range first {
		row(&b, keys[slices.IndexFunc(keys, func(k *Key) bool { return k.Path == path })])
	}
	b.WriteString("\n## Tuning\n\nAll other keys. A node runs well without them.\n")
	group := ""
	for _, k := range keys {
		if slices.Contains(first, k.Path) {
			continue
		}
		if g := groupOf(k.Path); g != group {
			group = g
			fmt.Fprintf(&b, "\n### %s\n\n%s", group, tableHead)
		}
		row(&b, k)
	}
	return b.String()
}

const tableHead = "| key | default | takes | meaning |\n|---|---|---|---|\n"

func row(b *strings.Builder, k *Key) {
	fmt.Fprintf(b, "| `%s`%s | %s | %s | %s |\n", k.Path, flagNote(k), code(k.Default), takes(k), strings.ReplaceAll(k.Help, "|", `\|`))
}

const referenceHead = `# Configuration

A node needs no configuration. The value of a key comes from the first of these that sets it:

1. a flag, if the key has one: ` + "`troupe node --listen 127.0.0.1:7071`" + `
2. the environment: ` + "`TROUPE_`" + ` and the key in capitals, dots as underscores: ` + "`TROUPE_EXECUTOR_CLAIM_TIMEOUT=20`" + `
3. the YAML file of ` + "`--config`" + ` or ` + "`TROUPE_CONFIG`" + `; an unknown key is an error with its line
4. the default

A bare number has the unit of its key. A text has its own: ` + "`90s`, `5m`, `1h`" + `. Lists are YAML lists in the file, and
joined by commas in the environment. ` + "`troupe config`" + ` prints every key with its value and where that comes from. Every
problem is reported at once, and a node with one does not start.

` + "```yaml" + `
listen: 0.0.0.0:7070
packs: [/srv/packs/demo]
tokens:
  - {name: ci, scopes: [submit, read], token_env: CI_TOKEN}
  - {name: ops, scopes: [admin], token_env: OPS_TOKEN}
executor: {default_timeout: 2m}
worker: {shutdown_timeout: 30}
shutdown: {platform_grace: 45}
` + "```" + `

Clients read ` + "`TROUPE_SERVER`, `TROUPE_TOKEN`, `TROUPE_CA_FILE`, `TROUPE_CERT_FILE`, `TROUPE_KEY_FILE` and `TROUPE_OUTPUT`" + `.
`

func groupOf(path string) string {
	if i := strings.LastIndex(path, "."); i > 0 {
		return path[:i]
	}
	return "general"
}

func flagNote(k *Key) string {
	if k.Flag == "" {
		return ""
	}
	return ", `--" + k.Flag + "`"
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// takes names a key's type, with its bounds where it has some.
func takes(k *Key) string {
	if k.span == nil {
		return k.Type()
	}
	return fmt.Sprintf("%s, %s to %s", k.Type(), k.bound(k.span.min), k.bound(k.span.max))
}
