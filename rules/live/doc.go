// Package live decides what a reader of the live stream is sent. An answer of the API is split into entries; two of them give a
// change; a change makes the second of the first. A ring keeps the newest events, so that a reader who was away goes on where it was.
//
// It asks nobody and keeps no time. Package api/hub calls it.
package live
