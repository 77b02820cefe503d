package submit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Hash tells whether two requests under one idempotency key are the same: then their hashes are equal. Who submits is no part of
// it. The store keeps hashes for as long as the executions, so what it is made of must not change.
func (r *Request) Hash() []byte {
	same := *r
	same.CreatedBy, same.Trace = "", ""
	same.Parameters = canonicalJSON(same.Parameters)
	raw, err := json.Marshal(same)
	if err != nil { // a request that came as JSON goes back to it
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}

// canonicalJSON writes JSON with its keys sorted and its blanks gone, so that the same parameters hash alike. Integers stay as
// they are, to the last digit. A number with a fraction or an exponent is the float64 that it is read as, so that 1.0 is 1, unless
// that is another number: then it stays as it is. What is not JSON is left alone.
func canonicalJSON(raw json.RawMessage) json.RawMessage {
	if !json.Valid(raw) {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return raw
	}
	if canonical, err := json.Marshal(canonicalNumbers(value)); err == nil {
		return canonical
	}
	return raw
}

func canonicalNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, of := range v {
			v[key] = canonicalNumbers(of)
		}
	case []any:
		for i, of := range v {
			v[i] = canonicalNumbers(of)
		}
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		f, err := v.Float64()
		if err == nil && decimalOf(v.String()) == decimalOf(strconv.FormatFloat(f, 'e', -1, 64)) {
			return f
		}
	}
	return value
}

// decimal is a number as its digits, without zeros around them, and the power of ten behind them.
type decimal struct {
	minus    bool
	digits   string
	exponent int
}

// decimalOf reads a number of JSON. One whose exponent is beyond all floats has its text as its digits.
func decimalOf(text string) decimal {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent, err := strconv.Atoi(cmp.Or(power, "0"))
	if err != nil {
		return decimal{digits: text}
	}
	d := decimal{minus: strings.HasPrefix(mantissa, "-")}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits != "" {
		d.exponent = exponent - len(fraction) + len(digits) - len(d.digits)
	}
	return d
}

// RetryHash is the request of a retry by hand under an idempotency key: which execution it repeats.
func RetryHash(id messages.ExecutionID) []byte {
	sum := sha256.Sum256([]byte("retry " + id.String()))
	return sum[:]
}
