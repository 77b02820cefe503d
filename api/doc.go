// Package api is the node's HTTP API: it reads requests, checks their form, size and caller, calls the Backend, and
// writes the answers. It owns the route table (route.go), from which it makes both the mux and the OpenAPI document, so
// that they always agree.
//
// It never decides about executions or workers. Its only state is counters of calls in flight. It knows neither the
// store's adapter nor the actors: node implements Backend, whose answers about nodes, pools and workers come from
// operate as types of operate/view, and mounts the handler. cmd/troupe/client decodes the same types.
//
// Every answer is JSON, errors included: {"error": {"code", "message", "details"}}. No input of a caller is ever
// returned as HTML. Every body, list, wait and stream has a bound.
//
// Its tests take long: slow callers and waits are given up after seconds, and bodies of the largest size are read.
package api
