package store

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// ErrNoticesLost is why a teller must stop: another incarnation took the outbox, or the database was restored from a
// copy. The teller takes the outbox again or leaves it to the other.
var ErrNoticesLost = errors.New("the outbox is not held any more")

// Notices is the outbox of completion notices. An execution with Notify set gets a notice in the transaction that
// writes its outcome. The notice stays until its teller reports it as told. One incarnation tells at a time.
type Notices interface {
	// HoldNotices makes the incarnation the teller for the lease, unless another one holds the outbox with a live lease
	// and is not declared dead. Each call that takes it has a higher epoch, also for the same incarnation.
	HoldNotices(ctx context.Context, inc messages.Incarnation, lease time.Duration) (NoticesHold, error)
	// ReadNotices returns the next notices, at most limit (1 to 10,000; 0: 1,000), in the order of commits: if one outcome
	// was stored when the transaction of another began, it comes first. It changes nothing. A page may be shorter than
	// limit, or empty, and have More.
	//
	// Of the page's notices of a route in unheard, a store may read only the first, and count the others in Unread: if no
	// queue gets the first, none would get the others. It does so only for first tries without a trace, whose messages
	// have the same key and headers, and follow no other notice.
	ReadNotices(ctx context.Context, from NoticesCursor, limit int, unheard NoticeRoutes) (NoticesPage, error)
	// NoticesTold deletes told notices, moves the cursor and renews the lease. If epoch is not the holder's, it does
	// nothing and returns ErrNoticesLost.
	NoticesTold(ctx context.Context, epoch int64, lease time.Duration, told ToldNotices) error
	// ReleaseNotices ends the hold of that epoch: another incarnation need not wait for the end of the lease.
	ReleaseNotices(ctx context.Context, epoch int64) error
	// PendingNotices counts the notices that are not told yet.
	PendingNotices(ctx context.Context) (NoticesPending, error)
}

// NoticesHold is the right to tell. Epoch 0: another incarnation holds the outbox.
type NoticesHold struct {
	Epoch  int64
	Cursor NoticesCursor
}

// NoticesCursor is a position in the outbox, in the store's own format. Only the store keeps it longer than a process.
type NoticesCursor string

// NoticesRow is a row of the outbox, in the store's own format.
type NoticesRow struct{ Tx, N int64 }

// Notice is one outcome to tell. Only those fields of its execution are set that a notice has (messages.NoticeOf).
type Notice struct {
	Execution messages.Execution
	// Truncated says that the result exceeds the bound of a notice and was not read.
	Truncated bool
}

// NoticeRoute is what the routing key of a notice is made of.
type NoticeRoute struct {
	Status messages.Status
	Action string
}

// NoticeRoutes is a set of routes.
type NoticeRoutes map[NoticeRoute]struct{}

// Has reports whether the route is in the set.
func (r NoticeRoutes) Has(route NoticeRoute) bool {
	_, ok := r[route]
	return ok
}

// NoticesPage is the answer of ReadNotices.
type NoticesPage struct {
	Notices []Notice
	Unread  map[NoticeRoute]int // notices that were not read, by route
	Gone    int                 // executions that were purged before they were told
	Rows    []NoticesRow        // the rows that are told completely once this page is
	Next    NoticesCursor       // where the next page begins
	More    bool                // the next page may be read at once
	Oldest  time.Time           // when the first of them ended
}

// ToldNotices reports told pages.
type ToldNotices struct {
	Cursor NoticesCursor // Next of the last page
	Rows   []NoticesRow
	// Later are executions whose notices the broker refused. Each moves to the end of the outbox. LaterAt is when the
	// oldest of them ended.
	Later   []messages.ExecutionID
	LaterAt time.Time
}

// NoticesPending says how many notices are not told yet, and how old they are.
type NoticesPending struct {
	Count int           // outcomes that are not told, with those that are being told
	More  bool          // there are more than Count
	Age   time.Duration // since the oldest of them ended, by the store's clock; 0: none
}
