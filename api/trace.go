package api

import (
	"fmt"
	"net/http"

	"github.com/troupe-run/troupe/rules/submit"
)

// traceparent reads the caller's trace context. One that breaks the W3C form is dropped, as the standard asks: it
// must never fail a request.
func traceparent(r *http.Request) string { return submit.Traceparent(r.Header.Get("Traceparent")) }

func entry(i int, message string) string { return fmt.Sprintf("executions[%d]: %s", i, message) }
