package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/messages"
)

// checkNames refuses a field of the outermost object that v does not have to the letter: encoding/json also reads a name in
// another case. The text is JSON.
func checkNames(text []byte, v any) *messages.Problem {
	fields := fieldsOf(reflect.TypeOf(v))
	var object map[string]json.RawMessage
	if fields == nil || json.Unmarshal(text, &object) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !fields[name] {
			return unknownOf(fields, name)
		}
	}
	return nil
}

// unknownOf is the problem of a name that is none of the fields. Where it differs from one in case alone, it names that.
func unknownOf(fields map[string]bool, name string) *messages.Problem {
	p := unknownField(name)
	for field := range fields {
		if strings.EqualFold(field, name) {
			p.Message = fmt.Sprintf("unknown field %q; write it as %q", clip(name), field)
		}
	}
	return p
}

var knownFields sync.Map // of reflect.Type to map[string]bool

// fieldsOf lists the JSON names of a struct's fields, with those of embedded structs; nil if it is no struct.
func fieldsOf(t reflect.Type) map[string]bool {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	if known, ok := knownFields.Load(t); ok {
		return known.(map[string]bool)
	}
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-", f.Anonymous && name == "", !f.IsExported():
		case name == "":
			fields[f.Name] = true
		default:
			fields[name] = true
		}
	}
	known, _ := knownFields.LoadOrStore(t, fields)
	return known.(map[string]bool)
}
