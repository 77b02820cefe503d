package api

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// zipMin is the size of an answer, in bytes, above which it is compressed for a caller that asks for that.
const zipMin = 2 << 10

// zipped is a writer whose caller takes answers with gzip. Only writeJSON compresses, so that streams and other media go out as they
// are written.
type zipped struct{ http.ResponseWriter }

// Unwrap gives http.ResponseController the connection.
func (z *zipped) Unwrap() http.ResponseWriter { return z.ResponseWriter }

// zipping returns the writer of a request's answer. Only answers to questions are compressed: those to submissions are small, and time
// counts more there.
func zipping(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if r.Method != http.MethodGet || !takesGzip(r.Header["Accept-Encoding"]) {
		return w
	}
	return &zipped{w}
}

// takesGzip reads Accept-Encoding: whether it names gzip, with a weight other than zero.
func takesGzip(headers []string) bool {
	for _, header := range headers {
		for part := range strings.SplitSeq(header, ",") {
			name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			weight, has := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			q, err := strconv.ParseFloat(weight, 64)
			return !has || err == nil && q > 0
		}
	}
	return false
}

var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

// zip compresses an answer into buf.
func zip(buf *bytes.Buffer, answer []byte) error {
	z := zippers.Get().(*gzip.Writer)
	defer zippers.Put(z)
	z.Reset(buf)
	if _, err := z.Write(answer); err != nil {
		return err
	}
	return z.Close()
}
