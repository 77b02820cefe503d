// Package api is the node's HTTP API: it reads requests, checks their shape, their size and who sends them, asks the
// Backend, and writes the answers. It owns the route table (route.go), from which both the mux and the OpenAPI
// document are made, so that they cannot disagree.
//
// It never decides about executions or workers, holds no state of its own beyond counters of what is in flight, and
// knows neither the store's adapter nor the actors: the node (node) implements Backend, whose answers about nodes, pools and
// workers come from operate as types of operate/view, and mounts the handler. cmd/troupe/client reads the same types from the
// other side.
//
// Every answer is JSON, errors included: {"error": {"code", "message", "details"}}. Nothing that a caller sent is
// ever sent back as HTML. Every body, list, wait and stream has a bound.
package api
