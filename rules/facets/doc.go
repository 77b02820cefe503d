// Package facets counts how many executions of a list have each value of a field, such as each status. It decides which fields there are,
// what an execution or a count by minute has in each, and which values an answer shows.
//
// It is pure, and keeps a bounded number of values.
package facets
