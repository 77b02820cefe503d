package postgres

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// noticeBytes bounds the long results and errors of one page, without its first notice.
const noticeBytes = 4 << 20

// noticeOutcome is a notice that is being read, with the sizes of its values in the table outcome.
type noticeOutcome struct {
	store.Notice
	result, failure int // bytes in the table outcome
}

// wanted returns how many bytes to read.
func (o *noticeOutcome) wanted() int {
	if o.result > messages.NoticeResultMax {
		return o.failure
	}
	return o.result + o.failure
}

type noticeOutcomes map[messages.ExecutionID]*noticeOutcome

// noticeOutcomesSQL reads the content of notices. It reads only the sizes of long results and errors.
var noticeOutcomesSQL = store.Statement(`SELECT e.id, e.seq, r.action, r.version, e.status, e.attempt, e.session, r.labels, r.trace, r.retry_count, r.original, e.retried_as,
 r.requested_at, e.started_at, e.finished_at, e.result, e.error, octet_length(o.result), octet_length(o.error)
 FROM execution e JOIN request r ON r.seq = e.seq LEFT JOIN outcome o ON o.seq = e.seq WHERE e.id = ANY ($1) AND e.status >= {completed}`)

func (s *outbox) noticeOutcomes(ctx context.Context, ids []messages.ExecutionID) (noticeOutcomes, error) {
	out := make(noticeOutcomes, len(ids))
	err := s.query(ctx, "read outcomes for notices", func(v *scanner) {
		o := &noticeOutcome{}
		e := &o.Execution
		v.id((*[16]byte)(&e.ID))
		e.Seq, e.Action, e.Version = v.integer(), v.text(), v.text()
		e.Status, e.Attempt, e.Session = messages.Status(v.integer()), messages.Attempt(v.integer()), v.text()
		e.Labels, e.Trace, e.RetryCount = v.labels(), v.text(), int(v.integer())
		v.id((*[16]byte)(&e.Original))
		v.id((*[16]byte)(&e.RetriedAs))
		e.RequestedAt, e.StartedAt, e.FinishedAt = v.time(), v.time(), v.time()
		e.Result, e.Error = v.bytes(), store.DecodeError(v.bytes())
		o.result, o.failure = int(v.integer()), int(v.integer())
		o.Truncated = o.result > messages.NoticeResultMax
		out[e.ID] = o
	}, noticeOutcomesSQL, idsOf(ids))
	return out, err
}

// fit returns how many of the ids, in order, have long outcomes within the bound; at least one.
func (all noticeOutcomes) fit(ids []messages.ExecutionID) int {
	sum := 0
	for i, id := range ids {
		if o, ok := all[id]; ok {
			if sum += o.wanted(); sum > noticeBytes && i > 0 {
				return i
			}
		}
	}
	return len(ids)
}

// longOutcomes reads the long results and errors of the ids.
func (s *outbox) longOutcomes(ctx context.Context, all noticeOutcomes, ids []messages.ExecutionID) error {
	bySeq := map[int64]*noticeOutcome{}
	var seqs []int64
	for _, id := range ids {
		if o, ok := all[id]; ok && o.wanted() > 0 {
			bySeq[o.Execution.Seq] = o
			seqs = append(seqs, o.Execution.Seq)
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	return s.query(ctx, "read long outcomes for notices", func(v *scanner) {
		if o, ok := bySeq[v.integer()]; ok {
			o.Execution.Result, o.Execution.Error = v.bytes(), store.DecodeError(v.bytes())
		}
	}, "SELECT seq, CASE WHEN octet_length(result) <= $2 THEN result END, error FROM outcome WHERE seq = ANY ($1)", seqs, messages.NoticeResultMax)
}
