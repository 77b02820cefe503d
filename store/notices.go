package store

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// ErrNoticesLost is why a teller may not go on: another has taken the outbox, or the database was restored from a copy.
// It takes the outbox again, or leaves it to the other.
var ErrNoticesLost = errors.New("the outbox is not held any more")

// Notices is the outbox of completion notices: an execution with Notify set gets one in the very transaction that gives
// it its outcome, and keeps it until its teller says that it was told. One incarnation tells at a time.
type Notices interface {
	// HoldNotices makes the incarnation the teller for the lease, unless another one holds the outbox: one whose lease has
	// not ended and that was not declared dead. Each taking has a higher epoch, also by the same incarnation.
	HoldNotices(ctx context.Context, inc messages.Incarnation, lease time.Duration) (NoticesHold, error)
	// ReadNotices returns the next notices, at most limit (1 to 10,000; 0: 1,000), in the order of commits: of two outcomes
	// one of which was stored when the other's transaction began, that one comes first. It changes nothing. A page may be
	// shorter than limit, or empty, and have More.
	ReadNotices(ctx context.Context, from NoticesCursor, limit int) (NoticesPage, error)
	// NoticesTold forgets what was told, moves the cursor and renews the lease, or does nothing and says ErrNoticesLost,
	// where the epoch is not the holder's.
	NoticesTold(ctx context.Context, epoch int64, lease time.Duration, told ToldNotices) error
	// ReleaseNotices ends the hold of that epoch, so that another need not wait for the lease's end.
	ReleaseNotices(ctx context.Context, epoch int64) error
	// PendingNotices says how far behind the telling is.
	PendingNotices(ctx context.Context) (NoticesPending, error)
}

// NoticesHold is the right to tell. Epoch is 0 where another incarnation holds the outbox.
type NoticesHold struct {
	Epoch  int64
	Cursor NoticesCursor
}

// NoticesCursor is a place in the outbox, in the store's own words; it outlives the process in the store alone.
type NoticesCursor string

// NoticesRow is a row of the outbox, in the store's own words.
type NoticesRow struct{ Tx, N int64 }

// Notice is one outcome to tell: its execution, of which only what a notice has is set (messages.NoticeOf).
type Notice struct {
	Execution messages.Execution
	// Truncated says that the result was longer than a notice's may be, and was not read.
	Truncated bool
}

// NoticesPage is what ReadNotices found.
type NoticesPage struct {
	Notices []Notice
	Gone    int           // executions that were purged before they were told
	Rows    []NoticesRow  // the rows that have been told whole when this page has been
	Next    NoticesCursor // where the next page begins
	More    bool          // the next page may be read at once
	Oldest  time.Time     // when the first of them ended
}

// ToldNotices is what has become of pages.
type ToldNotices struct {
	Cursor NoticesCursor // Next of the last page
	Rows   []NoticesRow
	// Later are executions whose notices the broker refuses; each gets a new place at the end. LaterAt is when the oldest ended.
	Later   []messages.ExecutionID
	LaterAt time.Time
}

// NoticesPending is how far behind the telling is.
type NoticesPending struct {
	Count int           // outcomes that are not told; one that is under way counts
	More  bool          // there are more, which were not counted
	Age   time.Duration // since the oldest of them ended, by the store's clock; 0: there is none
}
