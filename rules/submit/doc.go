// Package submit decides about submissions: what a Request may hold (Check), which execution it makes of an action
// (Complete), when two requests under one idempotency key are the same (Hash), and how long a caller waits for it
// (CallTime). Every way in uses it: the HTTP API, the Go API, a transaction of a caller, the requests queue and the
// store's inbox. It neither reads packs nor checks parameters against an action's schema: pack does that, between
// Check and Complete. Its errors are *messages.Problem.
package submit
