package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe/rules/submit"
)

// traceOf is the caller's trace context, from the headers traceparent and tracestate. It drops an invalid one, as the W3C standard
// requires: an invalid context must not fail a request.
func traceOf(r *http.Request) string {
	parents := r.Header.Values("Traceparent")
	if len(parents) != 1 {
		return ""
	}
	return submit.Trace(parents[0], strings.Join(r.Header.Values("Tracestate"), ","))
}

func entry(i int, message string) string { return fmt.Sprintf("executions[%d]: %s", i, message) }
