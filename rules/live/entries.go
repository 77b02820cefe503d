package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Entry is one part of an answer: a field of it, or one element of a field that is a list.
type Entry struct {
	Key   string // the field's name; for an element of a list, a slash and the element's own name behind it
	Value json.RawMessage
}

// Lists names the fields of an answer whose elements are entries of their own, each with the members that name an element.
type Lists map[string][]string

// Split makes entries of an answer, which is a JSON object, in the order of its text. A list without elements is an entry as it
// stands, so that it is not forgotten. Two elements of one name get numbers.
func Split(answer []byte, lists Lists) ([]Entry, error) {
	d := json.NewDecoder(bytes.NewReader(answer))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, fmt.Errorf("split an answer: want a JSON object, got %v: %w", begin, err)
	}
	var entries []Entry
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("split an answer: %w", err)
		}
		field := name.(string) // what stands before a value of an object
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("split an answer: field %s: %w", field, err)
		}
		members, listed := lists[field]
		if !listed || len(value) < 2 || value[0] != '[' || string(value) == "[]" {
			entries = append(entries, Entry{Key: field, Value: value})
			continue
		}
		if entries, err = elements(entries, field, members, value); err != nil {
			return nil, fmt.Errorf("split an answer: field %s: %w", field, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("split an answer: its end: %w", err)
	}
	return entries, nil
}

// elements adds an entry for each element of a list.
func elements(entries []Entry, field string, members []string, list json.RawMessage) ([]Entry, error) {
	var values []json.RawMessage
	if err := json.Unmarshal(list, &values); err != nil {
		return nil, err
	}
	seen := make(map[string]int, len(values))
	for _, value := range values {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(value, &object); err != nil {
			return nil, err
		}
		names := make([]string, len(members))
		for i, member := range members {
			names[i] = strings.Trim(string(object[member]), `"`)
		}
		key := field + "/" + strings.Join(names, " ")
		if seen[key]++; seen[key] > 1 {
			key += " #" + strconv.Itoa(seen[key])
		}
		entries = append(entries, Entry{Key: key, Value: value})
	}
	return entries, nil
}

// Size is what entries take, in bytes.
func Size(entries []Entry) int {
	size := 0
	for i := range entries {
		size += len(entries[i].Key) + len(entries[i].Value)
	}
	return size
}
