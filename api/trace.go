package api

import (
	"fmt"
	"net/http"

	"github.com/troupe-run/troupe/rules/submit"
)

// traceparent reads the caller's trace context. It drops an invalid one, as the W3C standard requires: an invalid
// context must not fail a request.
func traceparent(r *http.Request) string { return submit.Traceparent(r.Header.Get("Traceparent")) }

func entry(i int, message string) string { return fmt.Sprintf("executions[%d]: %s", i, message) }
