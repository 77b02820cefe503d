package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// What a handler returns or throws can have methods of its own, which may panic. Everything of it is read here.

// guarded calls read, and returns what it panics with as an error.
func guarded[T any](read func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return read()
}

// encode is json.Marshal for values whose methods may panic.
func encode(value any) ([]byte, error) {
	return guarded(func() ([]byte, error) { return json.Marshal(value) })
}

// textOf is the text of an error.
func textOf(err error) string {
	text, failed := guarded(func() (string, error) { return err.Error(), nil })
	if failed != nil {
		return fmt.Sprintf("a %T that cannot be described: %v", err, failed)
	}
	return text
}

// notJSON is the error of a value that encode has refused. It names where in the value that is, if that can be found.
func notJSON(what string, value any, err error) *Error {
	no := false
	reason, _ := guarded(func() (string, error) { return blame(reflect.ValueOf(value), 0), nil })
	if reason == "" {
		reason = textOf(err)
	}
	return &Error{Code: "result_not_json", Message: what + " is not JSON: " + reason, Retriable: &no}
}

// tooLarge is the error of a value with too many bytes.
func tooLarge(what string, size, limit int) *Error {
	no := false
	return &Error{Code: "result_too_large", Message: fmt.Sprintf("%s has %d bytes, the limit is %d", what, size, limit), Retriable: &no}
}

// depthMax bounds the search of a part that is not JSON; a loop of pointers ends there.
const depthMax = 100

// blame returns the path of the first part of a value that is not JSON, with the reason; empty: none was found.
func blame(v reflect.Value, depth int) string {
	if depth > depthMax {
		return "it is deeper than " + strconv.Itoa(depthMax) + " levels, or a part of itself"
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprintf("it is %v", f)
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return "it is a " + v.Type().String()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return blame(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if reason := blame(v.Index(i), depth+1); reason != "" {
				return under(strconv.Itoa(i), reason)
			}
		}
	case reflect.Map:
		for key, part := range v.Seq2() {
			if reason := blame(part, depth+1); reason != "" {
				return under(fmt.Sprint(key), reason)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name == "-" || !v.Type().Field(i).IsExported() {
				continue
			}
			if name == "" {
				name = v.Type().Field(i).Name
			}
			if reason := blame(v.Field(i), depth+1); reason != "" {
				return under(name, reason)
			}
		}
	}
	return ""
}

// under puts a name in front of the path of a reason.
func under(name, reason string) string {
	path, why := "", ""
	if rest, whole := strings.CutPrefix(reason, "it "); whole {
		why = " " + rest
	} else {
		path, why, _ = strings.Cut(reason, " ")
		why = " " + why
	}
	return "/" + strings.NewReplacer("~", "~0", "/", "~1", " ", "_").Replace(name) + path + why
}

// typesMax bounds the types of an error that are told.
const typesMax = 16

// typesOf returns the types in the error's chain, the outermost first, without the generic ones of fmt and errors.
func typesOf(err error) (types []string) {
	_, _ = guarded(func() (any, error) {
		for e := err; e != nil && len(types) < typesMax; e = errors.Unwrap(e) {
			if name := fmt.Sprintf("%T", e); !strings.HasPrefix(name, "*fmt.") && !strings.HasPrefix(name, "*errors.") {
				types = append(types, clip(strings.TrimPrefix(name, "*"), nameMax))
			}
		}
		return nil, nil
	})
	return types
}
