package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages/wire"
)

// Bounds of answers between nodes about actors. A node with 10,000 idle workers needs ten pages.
const (
	viewMax     = wire.PayloadMax - 4<<10 // bytes of one view; the rest is for the names around it
	pagesMax    = 32                      // of one node: 8 MiB
	cursorMax   = 256                     // bytes of an id at the end of a page, as in the contract
	textMax     = 512                     // bytes of a reason in a page
	childrenMax = 500                     // ids of children in an answer about one actor
	remoteTime  = time.Second             // for the history of an actor for another node
	headMax     = 64 << 10                // bytes of a page before its actors
)

// Inspector answers other nodes about this one's actors. It is safe for concurrent use.
type Inspector struct {
	cfg  Config
	mu   sync.Mutex
	last *roster // the roster of the last first page
	at   time.Time
}

// NewInspector makes an inspector.
func NewInspector(cfg Config) *Inspector { return &Inspector{cfg: cfg} }

// Inspect answers with one actor and its history, or with a page of the actors below it. A reader of all pages sees
// each actor once that lives during the whole time. It may miss an actor that starts or ends meanwhile.
func (i *Inspector) Inspect(ctx context.Context, q wire.Inspect) wire.InspectResult {
	if q.Depth == 0 {
		return i.cfg.inspectOne(ctx, q.Actor)
	}
	r := *i.listed(q.After == "")
	r.Actors = within(r.Actors, q.Actor, int(q.Depth))
	if q.Actor != "" && len(r.Actors) == 0 {
		return wire.InspectResult{Refused: shorten(unknownText(q.Actor), cursorMax)}
	}
	view, next, err := r.page(q.After)
	if err != nil {
		return wire.InspectResult{Refused: shorten(err.Error(), cursorMax)}
	}
	return wire.InspectResult{View: view, Next: next}
}

// listed returns the live actors now, or for later pages those at the time of the first page.
func (i *Inspector) listed(first bool) *roster {
	i.mu.Lock()
	defer i.mu.Unlock()
	if first || i.last == nil || time.Since(i.at) > wholeTime {
		i.last, i.at = i.cfg.list(), time.Now()
	}
	return i.last
}

// within returns an actor and so many levels below it; an empty id means the roots. It does not change the list.
func within(list []item, id string, depth int) []item {
	top := strings.Count(id, "/")
	kept := make([]item, 0, len(list))
	for i := range list {
		a := &list[i]
		inside := id == "" || a.ID == id || strings.HasPrefix(a.ID, id+"/")
		if inside && strings.Count(a.ID, "/")-top <= depth && len(a.ID) <= cursorMax {
			kept = append(kept, *a)
		}
	}
	return kept
}

// page encodes the actors after a cursor, as many as fit, and returns the next cursor; empty: none are left.
func (r *roster) page(after string) (view []byte, next string, err error) {
	rest := r.Actors
	if after != "" {
		from, found := slices.BinarySearchFunc(rest, after, func(a item, id string) int { return orderOf(a.ID, id) })
		if found {
			from++
		}
		rest = rest[from:]
	}
	view, err = json.Marshal(r.head)
	if err != nil || len(view) > headMax {
		return nil, "", fmt.Errorf("node %s cannot say what is above its actors: %d bytes of at most %d (%w)", r.Node, len(view), headMax, err)
	}
	view = append(view[:len(view)-1], `,"actors":[`...)
	for i := range rest {
		raw, err := json.Marshal(slim(rest[i]))
		if err != nil {
			return nil, "", fmt.Errorf("show actor %s as JSON: %w", rest[i].ID, err)
		}
		if len(view)+len(raw)+len(",]}") > viewMax {
			next = rest[i-1].ID // one always fits, because its texts are bounded
			break
		}
		if i > 0 {
			view = append(view, ',')
		}
		view = append(view, raw...)
	}
	return append(view, "]}"...), next, nil
}

// slim returns an actor as it is sent: its texts are bounded, and the parent is omitted, because the id contains it.
func slim(a item) item {
	a.Why, a.LastFailure = shorten(a.Why, textMax), shorten(a.LastFailure, textMax)
	if at := strings.LastIndexByte(a.ID, '/'); at > 0 && a.Parent == a.ID[:at] {
		a.Parent = ""
	}
	return a
}

// fill is the inverse of slim.
func fill(a item) item {
	if at := strings.LastIndexByte(a.ID, '/'); at > 0 && a.Parent == "" {
		a.Parent = a.ID[:at]
	}
	return a
}

// asking sends one request to another node.
type asking func(context.Context, wire.Inspect) (wire.InspectResult, error)

// errForeign means that another node's answer breaks the contract.
var errForeign = errors.New("its answer is not one that this release understands")

// collect reads a node's whole tree page by page, until it has all actors, or at least most, or pagesMax pages.
func collect(ctx context.Context, ask asking, most int) (*roster, error) {
	all, q := &roster{}, wire.Inspect{Depth: wire.DepthMax}
	for page := 0; page < pagesMax; page++ {
		result, err := ask(ctx, q)
		if err != nil {
			return nil, err
		}
		if result.Refused != "" {
			return nil, errors.New(result.Refused)
		}
		if err := all.add(result, q.After); err != nil {
			return nil, err
		}
		if q.After = result.Next; q.After == "" || len(all.Actors) >= most {
			break
		}
	}
	return all, nil
}

// add adds one page. It must continue where the one before ended.
func (r *roster) add(result wire.InspectResult, after string) error {
	var page roster
	if err := json.Unmarshal(result.View, &page); err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	last := after
	for i := range page.Actors {
		if id := page.Actors[i].ID; id == "" || last != "" && orderOf(id, last) <= 0 {
			return fmt.Errorf("%w: actor %q stands after %q", errForeign, shorten(id, cursorMax), shorten(last, cursorMax))
		}
		last = page.Actors[i].ID
		page.Actors[i] = fill(page.Actors[i])
	}
	if result.Next != "" && result.Next != last {
		return fmt.Errorf("%w: a page that ends at %q says %q", errForeign, shorten(last, cursorMax), result.Next)
	}
	r.head, r.Actors = page.head, append(r.Actors, page.Actors...)
	return nil
}

// inspectOne answers about one actor, with as many details as fit.
func (cfg Config) inspectOne(ctx context.Context, id string) wire.InspectResult {
	if id == "" {
		id = rootID
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTime)
	defer cancel()
	d, known := cfg.describe(ctx, id)
	if !known {
		return wire.InspectResult{Refused: shorten(unknownText(id), cursorMax)}
	}
	for _, lighten := range []func(){
		func() {}, func() { d.keepChildren(childrenMax) }, func() { d.Failure = nil }, func() { d.History = nil },
		func() { d.Why, d.LastFailure = shorten(d.Why, textMax), shorten(d.LastFailure, textMax) },
	} {
		lighten()
		if raw, err := json.Marshal(d); err == nil && len(raw) <= viewMax {
			return wire.InspectResult{View: raw}
		}
	}
	return wire.InspectResult{Refused: shorten("actor "+id+" cannot be shown to another node: ask its own", cursorMax)}
}

// keepChildren keeps so many children, and records how many there are.
func (d *Detail) keepChildren(most int) {
	if len(d.Children) > most {
		d.ChildrenCount, d.Children = len(d.Children), d.Children[:most]
	}
}

// askOne asks another node about one actor. refused is the text of a refusal.
func askOne(ctx context.Context, ask asking, id string) (d Detail, refused string, err error) {
	result, err := ask(ctx, wire.Inspect{Actor: id})
	if err != nil || result.Refused != "" {
		return d, result.Refused, err
	}
	if err := json.Unmarshal(result.View, &d); err != nil {
		return d, "", fmt.Errorf("%w: %w", errForeign, err)
	}
	return d, "", nil
}

// rootID is the actor above all others of a node.
const rootID = "troupe"

func unknownText(id string) string {
	return "actor " + shorten(id, 128) + " is not alive here, and no failure of it is remembered"
}

// shorten bounds a text, in bytes, and keeps it UTF-8.
func shorten(s string, most int) string {
	if len(s) > most {
		s = s[:most-len("…")] + "…"
	}
	return strings.ToValidUTF8(s, "")
}
