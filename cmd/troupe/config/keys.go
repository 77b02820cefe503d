package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages/secret"
	"github.com/troupe-run/troupe/node"
)

// envPrefix stands before every key's environment variable.
const envPrefix = "TROUPE_"

// Key is one setting: how it is called everywhere, what it is, and where its value came from.
type Key struct {
	Path    string // in the file: executor.claim_timeout
	Env     string // TROUPE_EXECUTOR_CLAIM_TIMEOUT
	Flag    string // without dashes; empty: none
	Unit    string // of a bare number: s, ms, B
	Default string
	Help    string
	Source  string // default, file NAME:LINE, env NAME, flag --NAME
	secret  string // "": no; url: its password; true: all of it

	span  *span
	paths bool // a list of folders: its text is parted as PATH is, too
	// off: the field says that what the key switches on is off. forever: its 0 means for ever, where the field's 0 means the default.
	off, forever bool

	value reflect.Value
}

// keysOf gives the struct its defaults and walks it. The keys' values are the struct's own fields.
func keysOf(c *Config) []*Key {
	*c = defaults()
	keys := walk(reflect.ValueOf(c).Elem(), "")
	for _, k := range keys {
		k.Env, k.Source, k.Default = envOf(k.Path), "default", k.text()
	}
	return keys
}

func walk(v reflect.Value, prefix string) []*Key {
	var keys []*Key
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if several, ok := v.Field(i).Addr().Interface().(keyed); ok {
			keys = append(keys, several.keys(prefix)...)
			continue
		}
		path, named := prefix+field.Tag.Get("yaml"), field.Tag.Get("yaml") != ""
		switch of := field.Type.Kind() == reflect.Struct; {
		case of && named:
			keys = append(keys, walk(v.Field(i), path+".")...)
			continue
		case of: // a component's settings, which stand among those around them
			keys = append(keys, walk(v.Field(i), prefix)...)
			continue
		case !named:
			continue // a component's own, that nobody sets
		}
		keys = append(keys, &Key{
			Path: path, span: spanOf(path, field.Tag.Get("range")), Flag: field.Tag.Get("flag"), Unit: field.Tag.Get("unit"),
			Help: field.Tag.Get("help"), secret: field.Tag.Get("secret"), value: v.Field(i),
			paths: field.Tag.Get("list") == "paths", off: field.Tag.Get("on") == "false", forever: field.Tag.Get("zero") == "forever",
		})
	}
	return keys
}

// plain is the key's value as the file holds it.
func (k *Key) plain() any {
	switch {
	case k.off:
		return !k.value.Bool()
	case k.Unit == unitBytes:
		return Bytes(k.value.Int())
	case k.forever && k.value.Int() == int64(node.ForEver):
		return time.Duration(0)
	}
	return k.value.Interface()
}

// Value is the key's value as a person may see it, and as the file would hold it.
func (k *Key) Value() string {
	switch v := k.plain().(type) {
	case time.Duration:
		return formatDuration(v, k.Unit)
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	case []Token:
		return redactTokens(v)
	case node.PoolSettings:
		return v.String()
	case string:
		if k.secret == "url" {
			return secret.Address(v)
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

// text is the key's value as one text, as the environment would hold it; empty where nothing is set.
func (k *Key) text() string {
	if list, ok := k.value.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	if k.value.Kind() == reflect.Slice {
		return ""
	}
	return k.Value()
}

// Type names what the key takes, for the reference.
func (k *Key) Type() string {
	switch k.plain().(type) {
	case time.Duration:
		if k.Unit == "ms" {
			return "milliseconds"
		}
		return "seconds"
	case []string:
		return "list"
	case []Token:
		return "list of tokens"
	case node.PoolSettings:
		return "settings by pool"
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
