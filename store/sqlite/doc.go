// Package sqlite is the embedded store.
package sqlite
