package postgres

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
)

// scanner reads the columns of one row, in order, in the server's binary format. That is several times as fast as
// scanning by reflection. NULL reads as zero. A value of unexpected length is kept as the row's error.
type scanner struct {
	row [][]byte
	n   int
	err error
}

func (s *scanner) raw() []byte {
	if s.n >= len(s.row) {
		s.err = fmt.Errorf("row has only %d columns", len(s.row))
		return nil
	}
	s.n++
	return s.row[s.n-1]
}

// integer reads a smallint, integer or bigint.
func (s *scanner) integer() int64 {
	switch b := s.raw(); len(b) {
	case 0:
		return 0
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	case 8:
		return int64(binary.BigEndian.Uint64(b))
	default:
		s.err = fmt.Errorf("column %d: an integer of %d bytes", s.n, len(b))
		return 0
	}
}

func (s *scanner) boolean() bool {
	b := s.raw()
	return len(b) == 1 && b[0] != 0
}

// epoch is the time from which Postgres counts microseconds.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// time reads a timestamptz. Infinite ones read as zero.
func (s *scanner) time() time.Time {
	b := s.raw()
	if len(b) != 8 {
		if len(b) != 0 {
			s.err = fmt.Errorf("column %d: a time of %d bytes", s.n, len(b))
		}
		return time.Time{}
	}
	us := int64(binary.BigEndian.Uint64(b))
	if us == math.MaxInt64 || us == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMicro(us + epoch).UTC()
}

// duration reads an interval. A month counts 30 days, as in Postgres' own comparisons.
func (s *scanner) duration() time.Duration {
	b := s.raw()
	if len(b) != 16 {
		if len(b) != 0 {
			s.err = fmt.Errorf("column %d: an interval of %d bytes", s.n, len(b))
		}
		return 0
	}
	days := int64(int32(binary.BigEndian.Uint32(b[8:]))) + 30*int64(int32(binary.BigEndian.Uint32(b[12:])))
	return time.Duration(int64(binary.BigEndian.Uint64(b)))*time.Microsecond + time.Duration(days)*24*time.Hour
}

func (s *scanner) text() string { return decodeText(string(s.raw())) }

// bytes copies, because the connection reuses its read buffer.
func (s *scanner) bytes() []byte {
	b := s.raw()
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

func (s *scanner) id(into *[16]byte) {
	switch b := s.raw(); len(b) {
	case 0:
		*into = [16]byte{}
	case 16:
		copy(into[:], b)
	default:
		s.err = fmt.Errorf("column %d: an id of %d bytes", s.n, len(b))
	}
}

// tid reads where a row lies in its table.
func (s *scanner) tid() pgtype.TID {
	b := s.raw()
	if len(b) != 6 {
		if len(b) != 0 {
			s.err = fmt.Errorf("column %d: the place of a row of %d bytes", s.n, len(b))
		}
		return pgtype.TID{}
	}
	return pgtype.TID{BlockNumber: binary.BigEndian.Uint32(b), OffsetNumber: binary.BigEndian.Uint16(b[4:]), Valid: true}
}

// labels reads a jsonb object, which arrives as text.
func (s *scanner) labels() map[string]string {
	b := s.raw()
	if len(b) == 0 {
		return nil
	}
	var kept map[string]string
	if err := json.Unmarshal(b, &kept); err != nil {
		s.err = errors.Join(s.err, fmt.Errorf("column %d: labels: %w", s.n, err))
		return nil
	}
	out := make(map[string]string, len(kept))
	for k, v := range kept {
		out[decodeText(k)] = decodeText(v)
	}
	return out
}

// Conversions to parameters. A zero value becomes NULL.

func uuidOf[T ~[16]byte](id T) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != T{}} }

func textOf[T ~string](s T) pgtype.Text {
	return pgtype.Text{String: encodeText(string(s)), Valid: s != ""}
}

func timeOf(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

func intervalOf(d time.Duration) pgtype.Interval {
	return pgtype.Interval{Microseconds: d.Microseconds(), Valid: true}
}

func bytesOf[T ~[]byte](b T) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func idsOf(ids []messages.ExecutionID) column[pgtype.UUID] {
	out := make(column[pgtype.UUID], len(ids))
	for i := range ids {
		out[i] = uuidOf(ids[i])
	}
	return out
}
