package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages/secret"
)

// envPrefix stands before every key's environment variable.
const envPrefix = "TROUPE_"

// Key is one setting: how it is called everywhere, what it is, and where its value came from.
type Key struct {
	Path    string // in the file: executor.claim_timeout
	Env     string // TROUPE_EXECUTOR_CLAIM_TIMEOUT
	Flag    string // without dashes; empty: none
	Unit    string // of a bare number: s, ms
	Default string
	Help    string
	Source  string // default, file NAME:LINE, env NAME, flag --NAME
	secret  string // "": no; url: its password; true: all of it

	span  *span
	paths bool // a list of folders: its text is parted as PATH is, too

	value reflect.Value
}

// keysOf walks the struct. The keys' values are the struct's own fields.
func keysOf(c *Config) []*Key {
	return walk(reflect.ValueOf(c).Elem(), "")
}

func walk(v reflect.Value, prefix string) []*Key {
	var keys []*Key
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if several, ok := v.Field(i).Addr().Interface().(keyed); ok {
			for _, k := range several.keys(prefix) {
				k.Env, k.Source = envOf(k.Path), "default"
				keys = append(keys, k)
			}
			continue
		}
		path := prefix + field.Tag.Get("yaml")
		if field.Type.Kind() == reflect.Struct {
			keys = append(keys, walk(v.Field(i), path+".")...)
			continue
		}
		keys = append(keys, &Key{
			Path: path, Env: envOf(path), span: spanOf(path),
			Flag: field.Tag.Get("flag"), Unit: field.Tag.Get("unit"), Default: field.Tag.Get("default"),
			Help: field.Tag.Get("help"), secret: field.Tag.Get("secret"), Source: "default", value: v.Field(i),
			paths: field.Tag.Get("list") == "paths",
		})
	}
	return keys
}

// Value is the key's value as a person may see it, and as the file would hold it.
func (k *Key) Value() string {
	switch v := k.value.Interface().(type) {
	case time.Duration:
		return formatDuration(v, k.Unit)
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	case []Token:
		return redactTokens(v)
	case string:
		if k.secret == "url" {
			return secret.Address(v)
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

// Type names what the key takes, for the reference.
func (k *Key) Type() string {
	switch k.value.Interface().(type) {
	case time.Duration:
		if k.Unit == "ms" {
			return "milliseconds"
		}
		return "seconds"
	case []string:
		return "list"
	case []Token:
		return "list of tokens"
	case Bytes:
		return "size"
	case string:
		return "text"
	case bool:
		return "true or false"
	}
	return "number"
}

func redactTokens(tokens []Token) string {
	names := make([]string, len(tokens))
	for i, t := range tokens {
		names[i] = fmt.Sprintf("%s(%s)", t.Name, strings.Join(t.Scopes, "+"))
	}
	return "[" + strings.Join(names, ", ") + "]"
}
