// Package faulty is a store that fails like a server over a network: calls are refused, replies are lost after the
// commit, requests arrive twice, and everything may be late. It wraps any store. The faults depend only on a seed and
// the order of the calls. Repeat is the caller that such a store needs, and a check: it repeats failed calls, and
// detects a store on which a repeated change took effect twice. Any adapter in both wrappers passes the suite in
// storetest:
//
//	storetest.Run(t, func(t *testing.T) store.Store { return faulty.Repeat(faulty.New(open(t), faulty.Config{Seed: 1})) })
package faulty
