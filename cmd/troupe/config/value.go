package config

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/node"
)

// unitBytes is the unit of a key that is a size.
const unitBytes = "B"

// Bytes is a size. Its text is a number with KiB, MiB or GiB, or a bare number of bytes.
type Bytes int64

var byteUnits = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

func (b Bytes) String() string {
	for _, u := range byteUnits {
		if n := int64(b); n != 0 && n%u.size == 0 && u.size > 1 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// ParseBytes reads a size.
func ParseBytes(text string) (Bytes, error) {
	number, size := strings.TrimSpace(text), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/size {
		return 0, fmt.Errorf("want a size such as 16MiB")
	}
	return Bytes(n * size), nil
}

// parseDuration reads a bare number in the unit, or a text with a unit of its own.
func parseDuration(text, unit string) (time.Duration, error) {
	scale := time.Second
	if unit == "ms" {
		scale = time.Millisecond
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if d := n * float64(scale); math.Abs(d) < math.MaxInt64 {
			return time.Duration(d), nil
		}
		return 0, fmt.Errorf("out of range")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("want a number of %s, or a duration such as 90s or 5m", unitName(unit))
	}
	return d, nil
}

func unitName(unit string) string {
	if unit == "ms" {
		return "milliseconds"
	}
	return "seconds"
}

// formatDuration is the inverse of parseDuration: a bare number in the unit.
func formatDuration(d time.Duration, unit string) string {
	scale := time.Second
	if unit == "ms" {
		scale = time.Millisecond
	}
	return strconv.FormatFloat(float64(d)/float64(scale), 'f', -1, 64)
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	tokensType   = reflect.TypeFor[[]Token]()
	poolsType    = reflect.TypeFor[node.PoolSettings]()
)

// set gives the key the value that a text stands for.
func (k *Key) set(text string) error {
	switch { // a text that is not valid leaves the value alone, so that its range is not complained about too
	case k.value.Type() == durationType:
		d, err := parseDuration(text, k.Unit)
		if err == nil && k.forever && d == 0 {
			d = node.ForEver
		}
		if err == nil {
			k.value.SetInt(int64(d))
		}
		return err
	case k.Unit == unitBytes:
		b, err := ParseBytes(text)
		if err == nil {
			k.value.SetInt(int64(b))
		}
		return err
	case k.value.Type() == tokensType:
		tokens, err := parseTokens(text)
		if err == nil {
			k.value.Set(reflect.ValueOf(tokens))
		}
		return err
	case k.value.Type() == poolsType:
		pools, err := parsePools(text)
		if err == nil {
			k.value.Set(reflect.ValueOf(pools))
		}
		return err
	}
	return k.setPlain(text)
}

func (k *Key) setPlain(text string) error {
	switch k.value.Kind() {
	case reflect.String:
		k.value.SetString(text)
	case reflect.Slice:
		if k.paths {
			text = strings.ReplaceAll(text, string(os.PathListSeparator), ",")
		}
		k.value.Set(reflect.ValueOf(splitList(text)))
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("want true or false")
		}
		k.value.SetBool(b != k.off)
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("want a whole number")
		}
		k.value.SetInt(int64(n))
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("want a number")
		}
		k.value.SetFloat(f)
	default:
		panic("config: key " + k.Path + " has the type " + k.value.Type().String() + ", which nothing reads")
	}
	return nil
}

// splitList reads a list from one text: its entries are parted by commas.
func splitList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// parsePools reads NAME:DISPATCH, joined by commas.
func parsePools(text string) (node.PoolSettings, error) {
	pools := node.PoolSettings{}
	for _, part := range splitList(text) {
		name, dispatch, ok := strings.Cut(part, ":")
		if _, twice := pools[name]; !ok || dispatch == "" {
			return nil, fmt.Errorf("want NAME:direct or NAME:broker, joined by commas")
		} else if twice {
			return nil, fmt.Errorf("%s stands there twice", name)
		}
		pools[name] = node.PoolSetting{Dispatch: dispatch}
	}
	return pools, nil
}

// parseTokens reads name:scope+scope:token, joined by commas. The text is secret: errors name positions alone.
func parseTokens(text string) ([]Token, error) {
	var tokens []Token
	for i, part := range splitList(text) {
		fields := strings.SplitN(part, ":", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("entry %d: want name:scope+scope:token", i+1)
		}
		tokens = append(tokens, Token{Name: fields[0], Scopes: strings.Split(fields[1], "+"), Secret: fields[2]})
	}
	return tokens, nil
}
