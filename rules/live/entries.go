package live

import (
	"encoding/json"
	"fmt"
	"slices"
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

// Split makes entries of an answer, in the order of its text. The answer is a JSON object as json.Marshal writes it, without spaces: only
// where its values begin and end is looked for. A list without elements is an entry as it stands, so that it is not forgotten. Two elements
// of one name get numbers. The entries share the answer's memory.
func Split(answer []byte, lists Lists) (entries []Entry, err error) {
	err = eachMember(answer, func(name, value []byte) error {
		field := string(name)
		members, listed := lists[field]
		if !listed || len(value) < 2 || value[0] != '[' || string(value) == "[]" {
			entries = append(entries, Entry{Key: field, Value: value})
			return nil
		}
		if entries, err = elements(entries, field, members, value); err != nil {
			return fmt.Errorf("field %s: %w", field, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("split an answer: %w", err)
	}
	return entries, nil
}

// elements adds an entry for each element of a list.
func elements(entries []Entry, field string, members []string, list []byte) ([]Entry, error) {
	seen, names := Names{}, make([]string, len(members))
	err := eachValue(list, '[', ']', func(at int) (end int, err error) {
		if end, err = valueEnd(list, at); err != nil {
			return 0, err
		}
		clear(names)
		missing := len(members)
		err = eachMember(list[at:end], func(name, value []byte) error {
			if i := slices.IndexFunc(members, func(member string) bool { return member == string(name) }); i >= 0 {
				names[i] = strings.Trim(string(value), `"`)
				missing--
			}
			if missing == 0 {
				return errEnough
			}
			return nil
		})
		entries = append(entries, Entry{Key: seen.Key(field, strings.Join(names, " ")), Value: list[at:end]})
		return end, err
	})
	return entries, err
}

// Names are the keys of a list's elements so far, with how many have each.
type Names map[string]int

// Key is the key of the next element, by its name. A second one of a name gets a number.
func (n Names) Key(field, name string) string {
	key := field + "/" + name
	if n[key]++; n[key] > 1 {
		key += " #" + strconv.Itoa(n[key])
	}
	return key
}

// Size is what entries take, in bytes.
func Size(entries []Entry) int {
	size := 0
	for i := range entries {
		size += len(entries[i].Key) + len(entries[i].Value)
	}
	return size
}
