package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
)

var (
	headerJSON    = []string{typeJSON}
	headerNosniff = []string{"nosniff"}
	headerNoStore = []string{"no-store"}
	headerGzip    = []string{"gzip"}
	headerVary    = []string{"Accept-Encoding"}
)

// writeJSON answers with v. It encodes v before it sends the status, so that a value that cannot be encoded gives a
// 500.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer putBuffer(buf)
	if err := encode(buf, v); err != nil {
		return err
	}
	answer := buf.Bytes()
	head(w, headerJSON)
	if z, ok := w.(*zipped); ok && len(answer) > zipMin {
		small := buffers.Get().(*bytes.Buffer)
		small.Reset()
		defer putBuffer(small)
		if err := zip(small, answer); err != nil {
			return err
		}
		answer = small.Bytes()
		z.Header()["Content-Encoding"], z.Header()["Vary"] = headerGzip, headerVary
	}
	// A failed write means that the caller has left, so the error is ignored.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	w.WriteHeader(status)
	_, _ = w.Write(answer)
	return nil
}

// encode writes v as a line of JSON.
func encode(buf *bytes.Buffer, v any) error {
	e, ok := v.(*form.ExecutionView)
	if !ok {
		return json.NewEncoder(buf).Encode(v)
	}
	text, err := e.AppendJSON(buf.AvailableBuffer())
	if err == nil {
		buf.Write(append(text, '\n'))
	}
	return err
}

// head sets the headers of every answer: its type, no sniffing of types, and no caching.
func head(w http.ResponseWriter, kind []string) {
	h := w.Header()
	h["Content-Type"] = kind
	h["X-Content-Type-Options"] = headerNosniff
	h["Cache-Control"] = headerNoStore
}

func writeProblem(w http.ResponseWriter, p *messages.Problem) {
	body := form.ErrorBody{Error: *viewError(p)}
	status := StatusOf(p)
	if writeJSON(w, status, body) != nil {
		body.Error.Details = nil // details that cannot be encoded are omitted; the rest always can
		_ = writeJSON(w, status, body)
	}
}

func viewError(p *messages.Problem) *form.ErrorView {
	return &form.ErrorView{Code: string(p.Code), Message: p.Message, Details: p.Details}
}
