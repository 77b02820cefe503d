package form

import (
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// EarlyHeader is a header of a submission with wait_seconds. With any value it has the call answered twice: with 103 Early Hints, whose
// Location has the id, as soon as the execution is stored, and at its end. So a caller that loses the connection meanwhile knows what
// to wait for. It is for callers that ask for it, because some HTTP clients take the first answer for the last one.
const EarlyHeader = "Troupe-Early"

// ExecutionsPath is where executions are submitted. The path of one has its id behind that.
const ExecutionsPath = "/api/v1/executions"

// WithEarly has told called with the id of the execution that a request submits, as soon as the node tells it. It may be called
// after the request has ended.
func WithEarly(r *http.Request, told func(messages.ExecutionID)) *http.Request {
	r.Header.Set(EarlyHeader, "1")
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			name, found := strings.CutPrefix(header.Get("Location"), ExecutionsPath+"/")
			if id, err := messages.ParseExecutionID(name); code == http.StatusEarlyHints && found && err == nil {
				told(id)
			}
			return nil
		},
	}))
}

// SayEarly tells a caller that asks for it what was stored. The answer's headers stay as they are.
func SayEarly(w http.ResponseWriter, r *http.Request, id messages.ExecutionID) {
	if r.Header.Get(EarlyHeader) == "" || !r.ProtoAtLeast(1, 1) {
		return
	}
	w.Header().Set("Location", ExecutionsPath+"/"+id.String())
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Del("Location")
}
