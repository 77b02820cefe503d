package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/config"
)

// readyMax bounds what is read of a node's answer.
const readyMax = 1 << 20

// localURL is where this machine's node answers what needs no token.
func localURL(l *config.Loaded) string {
	if l.TLS.CertFile != "" {
		return "https://" + l.Listen
	}
	return "http://" + l.Listen
}

// localClient asks this machine's node whether it is well. It sends nothing that is secret, and the certificate seldom has the name
// of the address that the node listens on, so it takes any.
var localClient = &http.Client{Transport: &http.Transport{
	DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // see above
}}

// runningNode asks the node that runs at the configured address whether it is ready. What only that node knows, such as a
// recorder that commits nothing or a disk that refused a write, shows nowhere else.
func runningNode(ctx context.Context, l *config.Loaded) finding {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, localURL(l)+"/readyz", nil)
	if err != nil {
		return ok("no node runs at " + l.Listen)
	}
	response, err := localClient.Do(r)
	switch {
	case ctx.Err() != nil:
		return warn("what listens at "+l.Listen+" does not answer GET /readyz", "if it is a node, its log says what it does")
	case errors.Is(err, syscall.ECONNREFUSED):
		return ok("no node runs at " + l.Listen)
	case err != nil:
		return ok(fmt.Sprintf("no node was asked: %v", err))
	}
	defer response.Body.Close()
	var ready api.Readiness
	known := response.StatusCode == http.StatusOK || response.StatusCode == http.StatusServiceUnavailable
	if err := json.NewDecoder(io.LimitReader(response.Body, readyMax)).Decode(&ready); err != nil || !known {
		return warn(fmt.Sprintf("what listens at %s answers GET /readyz with %s, and not as a node", l.Listen, response.Status), "see address")
	}
	return nodeReadiness(l.Listen, &ready)
}

// nodeReadiness judges what a node says of itself. One that starts or stops is in order.
func nodeReadiness(listen string, r *api.Readiness) finding {
	const advice = `docs/operations.md, "When a server is away", "When a write does not pass" and "When a reload is refused", says what to do`
	said := slices.Concat(r.WaitsFor, r.Notes)
	if len(r.BrokenPools) > 0 {
		said = append(said, "broken pools: "+strings.Join(r.BrokenPools, ", "))
	}
	detail := clipTo(strings.Join(said, "; "), 1000)
	starting := func(wait string) bool { return wait == "node" || strings.HasSuffix(wait, " is starting") }
	switch {
	case r.Draining:
		return warn("the node at "+listen+" is shutting down", "")
	case !r.Ready && slices.ContainsFunc(r.WaitsFor, func(w string) bool { return !starting(w) }):
		return fail("the node at "+listen+" is not ready: "+detail, advice)
	case !r.Ready:
		return warn("the node at "+listen+" is starting: "+detail, "")
	case detail != "":
		return warn("the node at "+listen+" is ready, and says: "+detail, advice)
	}
	return ok("the node at " + listen + " is ready")
}
