package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// BulkPreviewBody says what is to be done to which executions or dead letters.
type BulkPreviewBody struct {
	Kind        string              `json:"kind" doc:"retry or cancel, of executions; requeue or discard, of dead letters"`
	Filter      map[string][]string `json:"filter,omitempty" doc:"which ones: the parameters of GET /api/v1/executions, or of GET /api/v1/dead-letters, without order, limit and cursor, each with its values"`
	IDs         []string            `json:"ids,omitempty" doc:"or the executions' ids, at most 1,000"`
	DeadLetters []int64             `json:"dead_letters,omitempty" doc:"or the dead letters' numbers, at most 1,000"`
}

// BulkPreviewView is what an operation would act on.
type BulkPreviewView struct {
	Preview   messages.OperationID `json:"preview" doc:"names the preview, and the operation once it is confirmed"`
	ExpiresAt time.Time            `json:"expires_at" doc:"when it can no longer be confirmed"`
	SeqMax    int64                `json:"seq_max" doc:"the upper bound: what comes later is left alone"`
	Count     int64                `json:"count" doc:"executions or dead letters to act on"`
	Matched   int64                `json:"matched" doc:"with those that are skipped"`
	Exact     bool                 `json:"exact" doc:"false: there are more, and the counts are at least so large"`
	By        BulkBy               `json:"by" doc:"count by what"`
	Skipped   []BulkSkipped        `json:"skipped" doc:"those that match and are left as they are"`
	Examples  []form.ExecutionView `json:"examples" doc:"the 10 oldest executions, without parameters and results"`
	Letters   []BulkLetter         `json:"dead_letters,omitempty" doc:"the 10 oldest dead letters"`
}

// BulkBy counts executions by their status and their action, or dead letters by their reason and their action, the largest counts first.
type BulkBy struct {
	Status []bulk.Counted `json:"status"`
	Reason []bulk.Counted `json:"reason,omitempty"`
	Action []bulk.Counted `json:"action" doc:"up to 50 actions; the others are (other)"`
}

// BulkSkipped counts what is left as it is.
type BulkSkipped struct {
	Why string `json:"why"`
	N   int64  `json:"n"`
}

// BulkBody confirms a preview.
type BulkBody struct {
	Preview      string `json:"preview"`
	ConfirmCount *int64 `json:"confirm_count" doc:"the count of the preview"`
	Reason       string `json:"reason,omitempty" doc:"why, for the journal; up to 512 bytes"`
	Rate         int    `json:"rate,omitempty" doc:"executions or dead letters a second, 1 to 1000; 200 where left out"`
}

// BulkStarted is the answer to a confirmation.
type BulkStarted struct {
	Operation messages.OperationID `json:"operation"`
}

// OperationView is an operation on many executions or dead letters.
type OperationView struct {
	ID        messages.OperationID     `json:"id"`
	Kind      string                   `json:"kind" doc:"retry, cancel, requeue or discard"`
	Filter    map[string][]string      `json:"filter,omitempty"`
	IDs       int                      `json:"ids,omitempty" doc:"how many ids were named instead of a filter"`
	SeqMax    int64                    `json:"seq_max"`
	Count     int64                    `json:"count" doc:"executions or dead letters that the preview found to act on"`
	Exact     bool                     `json:"exact" doc:"of count"`
	By        string                   `json:"by"`
	Reason    string                   `json:"reason,omitempty"`
	Rate      int                      `json:"rate" doc:"how many a second"`
	State     store.OperationState     `json:"state" doc:"running, stopping, stopped, done or failed"`
	Problem   string                   `json:"problem,omitempty" doc:"why it failed"`
	Done      int64                    `json:"done"`
	Skipped   int64                    `json:"skipped"`
	Failed    int64                    `json:"failed"`
	Skips     []BulkSkipped            `json:"skips" doc:"skipped by why"`
	Failures  []store.OperationFailure `json:"failures" doc:"the first 100 of failed"`
	StartedAt time.Time                `json:"started_at"`
	EndedAt   time.Time                `json:"ended_at,omitzero"`
	Node      messages.Incarnation     `json:"incarnation,omitzero" doc:"the boot of the node that works on it, or did last"`
}

// OperationList is a page of operations, newest first.
type OperationList struct {
	Operations []OperationView `json:"operations"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

const bulkBodyMax = 64 << 10

func bulkRoutes() []*route {
	const one = "/api/v1/operations/{id}"
	return []*route{
		{method: "POST", path: "/api/v1/bulk/preview", scope: ScopeOperate, group: "operations", bodyMax: bulkBodyMax,
			summary: "What a retry or a cancel of many executions, or a requeue or a discard of many dead letters, would act on. Nothing is changed before the preview is confirmed.",
			body:    BulkPreviewBody{}, result: BulkPreviewView{}, handle: (*server).previewBulk},
		{method: "POST", path: "/api/v1/bulk", scope: ScopeOperate, group: "operations", bodyMax: bulkBodyMax, status: http.StatusAccepted,
			summary: "Confirm a preview of one's own. An operation does the work. To confirm it again returns the same operation.",
			body:    BulkBody{}, result: BulkStarted{}, handle: (*server).confirmBulk},
		{method: "GET", path: "/api/v1/operations", scope: ScopeRead, group: "operations", params: []param{
			{name: "from", kind: "string", help: "Only those that were started at this time or later, as 2030-01-31T08:00:00Z."},
			{name: "to", kind: "string", help: "Only those that were started before this time."}, limitParam, cursorParam},
			summary: "The operations on many executions or dead letters, newest first.", result: OperationList{}, handle: (*server).operations},
		{method: "GET", path: one, scope: ScopeRead, group: "operations",
			summary: "One operation, and how far it is.", result: OperationView{}, handle: (*server).operation},
		{method: "POST", reason: true, path: one + "/stop", scope: ScopeOperate, group: "operations",
			summary: "Stop an operation behind the step under way. The rest is untouched.", result: OperationView{}, handle: (*server).stopOperation},
	}
}

// bulkParams are the parameters of a list that a filter of an operation may have.
func bulkParams() []param {
	return slices.DeleteFunc(listParams(), func(p param) bool { return slices.Contains([]string{"order", "limit", "cursor"}, p.name) })
}

// BulkFilter reads the filter of an operation on executions.
func BulkFilter(values map[string][]string) (store.Filter, error) {
	if bulk.Empty(values) {
		return store.Filter{}, messages.Problemf(messages.CodeEmptyFilter,
			"the filter is empty, and would be every execution; say which ones, such as {\"status\": [\"failed\"], \"pool\": [\"python\"]}")
	}
	if err := checkBulkFilter(values, bulkParams()); err != nil {
		return store.Filter{}, err
	}
	return filterOf(query{values})
}

// checkBulkFilter returns why values are no filter of a list's parameters, or nil.
func checkBulkFilter(values map[string][]string, params []param) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		if at < 0 {
			return invalid("filter: unknown parameter %q; it takes %s", clip(name), strings.Join(names(params), ", "))
		}
		if len(values[name]) > 1 && !params[at].many {
			return invalid("filter: %s has %d values; give one", name, len(values[name]))
		}
		for _, v := range values[name] {
			if p := submit.CheckText("filter: "+name, v, cursorMax); p != nil {
				return p
			}
		}
	}
	return nil
}

// checkPreviewed returns why an operation must not begin with a filter that a list takes, or nil: it would act on more than the preview or the
// person meant.
func checkPreviewed(values map[string][]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == notPrefix+"q" && len(values[name]) > 0 {
			return invalid("filter: an operation cannot leave out a text: what the node that works searches for it may differ from what this one does; leave out labels, keys or error codes")
		}
		if slices.Contains(values[name], "") && !slices.Contains(emptyTaken, name) {
			return invalid("filter: %s has an empty value, which a list leaves out; give one, or leave %s out", name, name)
		}
	}
	return nil
}

func names(params []param) []string {
	list := make([]string, len(params))
	for i := range params {
		list[i] = params[i].name
	}
	return list
}

// bulkOf is the operation of a preview's body.
func bulkOf(body *BulkPreviewBody) (o store.Operation, err error) {
	kind, err := bulk.ParseKind(body.Kind)
	if err != nil {
		return o, invalid("kind must be %s, got %q", words(bulk.Kinds()), clip(body.Kind))
	}
	o.Kind = string(kind)
	if len(body.IDs)+len(body.DeadLetters) > 0 {
		o.IDs, err = bulkItems(body, kind)
		return o, err
	}
	filter := any(body.Filter)
	if kind.Letters() {
		_, err = letterFilterOf(body.Filter)
		filter = letterValues{body.Filter}
	} else {
		_, err = BulkFilter(body.Filter)
	}
	if err == nil {
		err = checkPreviewed(body.Filter)
	}
	if err != nil {
		return o, err
	}
	if o.Filter, err = json.Marshal(filter); err == nil && len(o.Filter) > store.OperationFilterMax {
		err = invalid("filter is %d bytes long; the limit is %d", len(o.Filter), store.OperationFilterMax)
	}
	return o, err
}

// bulkItems are what a preview's body names instead of a filter.
func bulkItems(body *BulkPreviewBody, kind bulk.Kind) ([]store.OperationItem, error) {
	field, n := "ids", len(body.IDs)
	if kind.Letters() {
		field, n = "dead_letters", len(body.DeadLetters)
	}
	switch {
	case n < len(body.IDs)+len(body.DeadLetters):
		return nil, invalid("a %s takes filter or %s, and no other ids", kind, field)
	case len(body.Filter) > 0:
		return nil, invalid("give filter or %s, not both", field)
	case n > store.OperationIDsMax:
		return nil, invalid("%s: %d, at most %d; use a filter", field, n, store.OperationIDsMax)
	case kind.Letters():
		return distinctLetters(body.DeadLetters)
	}
	return distinct(body.IDs)
}

// distinct reads ids, each once.
func distinct(texts []string) (ids []store.OperationItem, err error) {
	known := map[messages.ExecutionID]bool{}
	for i, text := range texts {
		id, err := messages.ParseExecutionID(text)
		if err != nil || id.IsZero() {
			return nil, invalid("ids: number %d, %q, is not an execution id", i+1, clip(text))
		}
		if !known[id] {
			known[id], ids = true, append(ids, store.ExecutionItem(id))
		}
	}
	return ids, nil
}

func (s *server) previewBulk(c *call) error {
	var body BulkPreviewBody
	if err := c.decode(false, &body); err != nil {
		return err
	}
	o, err := bulkOf(&body)
	if err != nil {
		return err
	}
	o.By = c.caller
	o, tally, err := s.Backend.Bulk().Preview(c.r.Context(), o)
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, &BulkPreviewView{
		Preview: o.ID, ExpiresAt: o.ExpiresAt, SeqMax: o.SeqMax, Count: o.Count, Matched: tally.Matched, Exact: o.Exact,
		By:      BulkBy{Status: tally.Statuses(), Reason: bulk.Sorted(tally.Reason), Action: bulk.Sorted(tally.Action)},
		Skipped: skipped(tally.Skipped), Examples: viewAll(tally.Examples), Letters: bulkLetters(tally.Letters),
	})
}

func skipped[K ~string](counts map[K]int64) []BulkSkipped {
	list := []BulkSkipped{}
	for _, c := range bulk.Sorted(counts) {
		list = append(list, BulkSkipped{Why: c.Value, N: c.N})
	}
	return list
}

func (s *server) confirmBulk(c *call) error {
	var body BulkBody
	if err := c.decode(false, &body); err != nil {
		return err
	}
	id, err := messages.ParseOperationID(body.Preview)
	switch {
	case err != nil:
		return invalid("preview: %s; pass on what the preview answered", clip(err.Error()))
	case body.ConfirmCount == nil:
		return invalid("confirm_count is missing; send the count of the preview")
	case body.Rate < 0 || body.Rate > bulk.RateMax:
		return invalid("rate must be 1 to %d a second, got %d", bulk.RateMax, body.Rate)
	}
	if body.Rate == 0 {
		body.Rate = bulk.RateDefault
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	o, err := s.Backend.Bulk().Confirm(c.r.Context(), id, Confirmation{Count: *body.ConfirmCount, Reason: body.Reason, Rate: body.Rate, By: c.caller})
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusAccepted, &BulkStarted{Operation: o.ID})
}

func (s *server) operations(c *call) error {
	var q store.OperationQuery
	var err error
	if q.Limit, err = c.query.number("limit", 1, 1000, 100); err != nil {
		return err
	}
	if q.From, q.To, err = c.query.times(); err != nil {
		return err
	}
	if q.After, err = c.query.operationPosition(); err != nil {
		return err
	}
	found, err := s.Backend.Bulk().Operations(c.r.Context(), q)
	if err != nil {
		return err
	}
	list := OperationList{Operations: make([]OperationView, len(found))}
	for i := range found {
		list.Operations[i] = viewOperation(&found[i])
		list.Operations[i].Failures = []store.OperationFailure{}
	}
	if n := len(found); n == q.Limit {
		list.NextCursor = cursor(fmt.Sprintf("%d %s", found[n-1].CreatedAt.UnixMicro(), found[n-1].ID))
	}
	return writeJSON(c.w, http.StatusOK, &list)
}

func (q query) operationPosition() (at store.OperationCursor, err error) {
	text := q.text("cursor")
	if text == "" {
		return at, nil
	}
	position, err := parseCursor(text)
	if err != nil {
		return at, err
	}
	micros, id, _ := strings.Cut(position, " ")
	n, badTime := strconv.ParseInt(micros, 10, 64)
	if at.ID, err = messages.ParseOperationID(id); err != nil || badTime != nil {
		return at, invalid("cursor %q is none of this list's; pass on next_cursor as it came", clip(text))
	}
	at.At = time.UnixMicro(n).UTC()
	return at, nil
}

// ofOperation asks the backend about the operation of the path.
func (s *server) ofOperation(c *call, ask func(messages.OperationID) (store.Operation, error)) error {
	text := c.r.PathValue("id")
	id, err := messages.ParseOperationID(text)
	if err != nil {
		return messages.Problemf(messages.CodeNotFound, "operation %q is not known here: it is not an operation id", clip(text))
	}
	o, err := ask(id)
	if err != nil {
		return named(err, "operation", id.String())
	}
	view := viewOperation(&o)
	return writeJSON(c.w, http.StatusOK, &view)
}

func (s *server) operation(c *call) error {
	return s.ofOperation(c, func(id messages.OperationID) (store.Operation, error) {
		return s.Backend.Bulk().Operation(c.r.Context(), id)
	})
}

func (s *server) stopOperation(c *call) error {
	return s.ofOperation(c, func(id messages.OperationID) (store.Operation, error) {
		return s.Backend.Bulk().Stop(c.r.Context(), id, c.caller)
	})
}

// filterValues are the parameters of an operation's filter; nil: it is of another version.
func filterValues(o *store.Operation) (values map[string][]string) {
	var err error
	if bulk.Kind(o.Kind).Letters() {
		values, err = storedLetterValues(o.Filter)
	} else {
		err = json.Unmarshal(o.Filter, &values)
	}
	if err != nil {
		return nil
	}
	return values
}

func viewOperation(o *store.Operation) OperationView {
	v := OperationView{
		ID: o.ID, Kind: o.Kind, IDs: len(o.IDs), SeqMax: o.SeqMax, Count: o.Count, Exact: o.Exact, By: o.By, Reason: o.Reason, Rate: o.Rate,
		State: o.State, Problem: o.Problem, Done: o.Done, Skipped: o.Skipped, Failed: o.Failed, Skips: skipped(o.Skips), Failures: orEmpty(o.Failures),
		StartedAt: o.StartedAt, EndedAt: o.EndedAt, Node: o.Incarnation,
	}
	if len(o.Filter) > 0 {
		v.Filter = filterValues(o)
	}
	return v
}
