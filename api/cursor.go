package api

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/rules/submit"
)

// cursorMark begins every cursor, so that any other text is recognized as invalid.
const cursorMark = "c1|"

const cursorMax = 1024 // characters

// cursor encodes a position. Callers return it unchanged and never read it.
func cursor(position string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + position))
}

func parseCursor(text string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > cursorMax || !strings.HasPrefix(string(raw), cursorMark) {
		return "", invalid("cursor %q is none of this node's; pass on next_cursor as it came, or leave cursor out", clip(text))
	}
	return string(raw[len(cursorMark):]), nil
}

// query is a request's parsed query.
type query struct{ values map[string][]string }

func (q query) text(name string) string {
	if v := q.values[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (q query) all(name string) []string { return q.values[name] }

// number reads a whole number. A missing parameter gives otherwise.
func (q query) number(name string, min, max, otherwise int) (int, error) {
	text := q.text(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < min || n > max {
		return 0, invalid("%s must be a whole number from %d to %d, got %q", name, min, max, clip(text))
	}
	return n, nil
}

// seconds reads a duration. A missing parameter gives otherwise.
func (q query) seconds(name string, max, otherwise time.Duration) (time.Duration, error) {
	text := q.text(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= max.Seconds()) {
		return 0, invalid("%s must be 0 to %v seconds, got %q", name, max.Seconds(), clip(text))
	}
	return time.Duration(n * float64(time.Second)), nil
}

func (q query) flag(name string) (bool, error) {
	switch text := q.text(name); text {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	default:
		return false, invalid("%s must be 1 or 0, got %q", name, clip(text))
	}
}

// position reads a cursor that is a positive number. A missing parameter gives 0.
func (q query) position() (int64, error) {
	text := q.text("cursor")
	if text == "" {
		return 0, nil
	}
	position, err := parseCursor(text)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(position, 10, 64)
	if err != nil || n < 1 {
		return 0, invalid("cursor %q is none of this list's; pass on next_cursor as it came", clip(text))
	}
	return n, nil
}

func numberCursor(n int64) string {
	if n == 0 {
		return ""
	}
	return cursor(strconv.FormatInt(n, 10))
}

// check refuses parameters that the route does not have, by name.
func (q query) check(rt *route) error {
	for name, values := range q.values {
		p := rt.param(name)
		if p == nil {
			return invalid("unknown query parameter %q; %s %s takes %s", clip(name), rt.method, rt.path, rt.paramNames())
		}
		if len(values) > 1 && !p.many {
			return invalid("query parameter %q is given %d times; give it once", name, len(values))
		}
		for _, v := range values {
			if prob := submit.CheckText(name, v, cmp.Or(p.max, cursorMax)); prob != nil {
				return prob
			}
		}
	}
	return nil
}

// queryOf parses the request's query. It returns an error if the query is malformed.
func queryOf(r *http.Request) (query, error) {
	if r.URL.RawQuery == "" {
		return query{}, nil
	}
	values, err := parseQuery(r.URL.RawQuery)
	return query{values}, err
}
