// Package webhook decides about the calls that tell of outcomes by HTTP: which addresses a node may call (Policy), what an answer
// means and when the next try is (Judge), how a call is signed (Sign), and how many calls each destination may have under way
// (Destinations). It makes no call and reads no clock. The actor webhooks and the check of submissions call it.
package webhook
