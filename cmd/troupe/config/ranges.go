package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// span is what a number may be, both ends included. Durations are in seconds.
type span struct{ min, max float64 }

// spanOf reads a tag "min..max"; nil: the field has no bounds. One that cannot be read is a broken build.
func spanOf(path, tag string) *span {
	if tag == "" {
		return nil
	}
	low, high, _ := strings.Cut(tag, "..")
	least, err := strconv.ParseFloat(low, 64)
	most, err2 := strconv.ParseFloat(high, 64)
	if err != nil || err2 != nil || least > most {
		panic("config: range of " + path + ": " + tag)
	}
	return &span{least, most}
}

// number returns the key's value as its span measures it; ok is false for a key that is no number.
func (k *Key) number() (n float64, ok bool) {
	switch v := k.plain().(type) {
	case time.Duration:
		return v.Seconds(), true
	case Bytes:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func (c *checker) ranges(l *Loaded) {
	for _, k := range l.Keys {
		n, ok := k.number()
		if s := k.span; ok && s != nil && !(n >= s.min && n <= s.max) {
			c.bad(k.Path, "must be %s to %s", k.bound(s.min), k.bound(s.max))
		}
	}
}

// bound writes a limit in the key's own unit.
func (k *Key) bound(n float64) string {
	switch k.plain().(type) {
	case time.Duration:
		return formatDuration(time.Duration(n*float64(time.Second)), k.Unit)
	case Bytes:
		return Bytes(math.Round(n)).String()
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
