// Package form is the JSON of the HTTP API that programs read and write who submit: bodies, executions, sessions and errors. api
// serves it, and the client of the root package speaks it. It links the standard library only.
package form
