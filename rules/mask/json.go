package mask

import (
	"bytes"
	"encoding/json"
)

// value masks a JSON value by reading it.
func (s *Set) value(raw json.RawMessage) json.RawMessage {
	whole := json.RawMessage(`"` + Mark + `"`)
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // numbers keep their digits
	var v any
	if decoder.Decode(&v) != nil || decoder.More() {
		return whole
	}
	masked, err := json.Marshal(s.walk(v))
	if err != nil {
		return whole
	}
	return masked
}

// walk recurses as deep as the decoder lets a value be.
func (s *Set) walk(v any) any {
	switch v := v.(type) {
	case string:
		return s.Text(v)
	case json.Number:
		if text := s.Text(v.String()); text != v.String() {
			return text
		}
	case []any:
		for i := range v {
			v[i] = s.walk(v[i])
		}
	case map[string]any:
		masked := make(map[string]any, len(v))
		for key, value := range v {
			masked[s.Text(key)] = s.walk(value)
		}
		return masked
	}
	return v
}
