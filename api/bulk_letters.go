package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/store"
)

// BulkLetter is a dead letter that an operation would act on.
type BulkLetter struct {
	ID         int64                `json:"id"`
	At         time.Time            `json:"at"`
	Reason     string               `json:"reason"`
	Resolution string               `json:"resolution"`
	Action     string               `json:"action,omitempty"`
	Execution  messages.ExecutionID `json:"execution,omitzero"`
}

func bulkLetters(letters []bulk.Letter) []BulkLetter {
	list := make([]BulkLetter, len(letters))
	for i := range letters {
		l := &letters[i]
		list[i] = BulkLetter{ID: l.ID, At: l.At, Reason: l.Reason, Resolution: l.Resolution, Action: l.Action, Execution: l.Execution}
	}
	return list
}

// letterParams say which dead letters a list or an operation has.
func letterParams() []param {
	params := []param{
		{name: "from", kind: "string", help: "Only those of this time or later, as 2030-01-31T08:00:00Z."},
		{name: "to", kind: "string", help: "Only those before this time."},
		{name: "reason", kind: "string", many: true, help: "Only with this reason, such as expired" + oneOfSeveral},
		{name: "resolution", kind: "string", many: true, help: "Only with this resolution, such as requeued" + oneOfSeveral},
		{name: "worker", kind: "string", many: true, help: "Only of this worker's queue" + oneOfSeveral},
		{name: "action", kind: "string", many: true, help: "Only of this action" + oneOfSeveral},
	}
	for _, name := range []string{"reason", "resolution", "worker", "action"} {
		params = append(params, param{name: notPrefix + name, kind: "string", many: true, help: "None with this " + name + "; repeat it for several."})
	}
	return params
}

// letterValues is the stored form of a filter on dead letters. What reads filters on executions cannot read it.
type letterValues struct {
	Values map[string][]string `json:"dead_letters"`
}

// BulkLetterFilter reads the stored filter of an operation on dead letters.
func BulkLetterFilter(filter json.RawMessage) (store.DeadLetterFilter, error) {
	values, err := storedLetterValues(filter)
	if err != nil {
		return store.DeadLetterFilter{}, messages.Problemf(messages.CodeInvalidRequest, "filter: %s", err)
	}
	return letterFilterOf(values)
}

// storedLetterValues reads the parameters of a stored filter. One that has more, which a node of another version has stored, is an error:
// without that part it would have more dead letters than were confirmed.
func storedLetterValues(filter json.RawMessage) (map[string][]string, error) {
	var stored letterValues
	dec := json.NewDecoder(bytes.NewReader(filter))
	dec.DisallowUnknownFields()
	err := dec.Decode(&stored)
	return stored.Values, err
}

// letterFilterOf reads the filter of an operation on dead letters.
func letterFilterOf(values map[string][]string) (store.DeadLetterFilter, error) {
	if bulk.Empty(values) {
		return store.DeadLetterFilter{}, messages.Problemf(messages.CodeEmptyFilter,
			"the filter is empty, and would be every dead letter; say which ones, such as {\"reason\": [\"expired\"], \"action\": [\"shop.import\"]}")
	}
	if err := checkBulkFilter(values, letterParams()); err != nil {
		return store.DeadLetterFilter{}, err
	}
	return letterFilter(query{values})
}

// distinctLetters are dead letters by their numbers, each once.
func distinctLetters(numbers []int64) (items []store.OperationItem, err error) {
	for i, n := range numbers {
		if n < 1 {
			return nil, invalid("dead_letters: number %d, %d, is not the number of a dead letter", i+1, n)
		}
		if item := store.LetterItem(n); !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items, nil
}
