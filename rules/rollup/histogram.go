package rollup

import (
	"encoding/binary"
	"math"
	"time"
)

// Buckets is the number of a histogram's buckets. Bucket 0 has times up to 1 ms. The upper bound of each next one is √2 times higher, so
// that the last one begins at 35 days, and a quantile is at most 19 % from the true one.
const Buckets = 64

// Histogram counts times.
type Histogram [Buckets]uint32

// bucketOf is the bucket of a time.
func bucketOf(d time.Duration) int {
	if d <= time.Millisecond {
		return 0
	}
	i := int(math.Ceil(2*math.Log2(float64(d)/float64(time.Millisecond)) - 1e-9))
	return min(i, Buckets-1)
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) {
	if i := bucketOf(d); h[i] < math.MaxUint32 {
		h[i]++
	}
}

// Merge adds another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o {
		h[i] = uint32(min(uint64(h[i])+uint64(n), math.MaxUint32))
	}
}

// Quantile returns the time that the share q of all is no longer than: the middle of its bucket. Zero: there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := uint64(0)
	for _, n := range h {
		total += uint64(n)
	}
	if total == 0 {
		return 0
	}
	rank := max(1, uint64(math.Ceil(q*float64(total))))
	for i, n := range h {
		if uint64(n) >= rank {
			return middle(i)
		}
		rank -= uint64(n)
	}
	return middle(Buckets - 1)
}

// middle is the geometric middle of a bucket.
func middle(i int) time.Duration {
	if i == 0 {
		return time.Millisecond / 2
	}
	return time.Duration(math.Exp2((float64(i)-0.5)/2) * float64(time.Millisecond))
}

// Encode writes the buckets that are not empty: the distance from the one before and its count, each as a varint.
func (h *Histogram) Encode() []byte {
	var b []byte
	last := -1
	for i, n := range h {
		if n > 0 {
			b = binary.AppendUvarint(b, uint64(i-last))
			b = binary.AppendUvarint(b, uint64(n))
			last = i
		}
	}
	return b
}

// Decode is the inverse of Encode. What cannot be read counts nothing.
func Decode(b []byte) (h Histogram) {
	at := -1
	for len(b) > 0 {
		step, n := binary.Uvarint(b)
		if n <= 0 {
			return h
		}
		count, m := binary.Uvarint(b[n:])
		if m <= 0 || step == 0 || step > Buckets || at+int(step) >= Buckets || count > math.MaxUint32 {
			return h
		}
		at += int(step)
		h[at] = uint32(count)
		b = b[n+m:]
	}
	return h
}
