package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/troupe-run/troupe/messages"
)

// inputMax bounds what is read from a file or standard input, in bytes.
const inputMax = 256 << 20

// readInput reads a file, or standard input for "-".
func (s *submission) readInput(name string) ([]byte, error) {
	source := s.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		defer f.Close()
		source = f
	}
	data, err := io.ReadAll(io.LimitReader(source, inputMax+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > inputMax {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", name, inputMax)
	}
	return data, nil
}

// parameters builds the parameters of a submission: the file's object first, the pairs over it. key=value is text,
// key:=json any JSON value.
func (s *submission) parameters(file string, pairs []string) (json.RawMessage, error) {
	if file != "" && len(pairs) == 0 {
		data, err := s.readInput(file)
		if err != nil {
			return nil, err
		}
		// Left as it is: numbers keep every digit, and the node judges it.
		return data, objectOnly(file, data)
	}
	merged := map[string]json.RawMessage{}
	if file != "" {
		data, err := s.readInput(file)
		if err != nil {
			return nil, err
		}
		if err := objectOnly(file, data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &merged); err != nil {
			return nil, usagef("%s holds no JSON object: %w", file, err)
		}
	}
	for _, pair := range pairs {
		key, value, err := parsePair(pair)
		if err != nil {
			return nil, err
		}
		merged[key] = value
	}
	if len(merged) == 0 {
		return nil, nil
	}
	return json.Marshal(merged)
}

func objectOnly(name string, data []byte) error {
	if rest, stdin := strings.CutPrefix(name, "-"); stdin {
		name = "standard input" + rest
	}
	if len(data) > messages.ParametersMax {
		return fmt.Errorf("%s is %d bytes; parameters may be %d", name, len(data), messages.ParametersMax)
	}
	if !strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		return usagef("%s holds no JSON object: it does not begin with {", name)
	}
	if p := messages.CheckJSON(data); p != nil {
		return usagef("%s holds no JSON object: %w", name, p)
	}
	return nil
}

// parsePair reads one key=value or key:=json.
func parsePair(pair string) (string, json.RawMessage, error) {
	key, text, ok := strings.Cut(pair, "=")
	if !ok || key == "" || key == ":" {
		return "", nil, usagef("parameter %q must be key=value or key:=json", pair)
	}
	if name, isJSON := strings.CutSuffix(key, ":"); isJSON {
		if p := messages.CheckJSON([]byte(text)); p != nil {
			return "", nil, usagef("parameter %s: %q is not JSON; for text write %s=… (%w)", name, clipTo(text, 60), name, p)
		}
		return name, json.RawMessage(text), nil
	}
	if !utf8.ValidString(key) || !utf8.ValidString(text) {
		return "", nil, usagef("parameter %q is not UTF-8", clipTo(pair, 60))
	}
	value, err := json.Marshal(text)
	return key, value, err
}

// keyValues reads name=value pairs, as of labels.
func keyValues(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("label %q must be name=value", pair)
		}
		m[name] = value
	}
	return m, nil
}
