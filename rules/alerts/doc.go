// Package alerts has the rules by which somebody is called: what is measured, from which limit on and for how long it is bad, what
// it means, and what to do. The files for Prometheus and the pages of the runbook are rendered from this table, and a node's
// findings go by the same names and limits.
//
// It is pure.
package alerts
