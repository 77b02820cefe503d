// Package faulty is a store that fails as a server over a network does: calls are refused, replies are lost after the
// commit, requests arrive twice, everything may be late. It wraps any store; what goes wrong follows from one seed and
// the order of the calls. Repeat is the caller that such a store needs, and an auditor: it repeats what failed, and
// finds out a store on which a repeated change took effect twice. Tests use them: any adapter, wrapped in both, passes
// the suite in storetest:
//
//	storetest.Run(t, func(t *testing.T) store.Store { return faulty.Repeat(faulty.New(open(t), faulty.Config{Seed: 1})) })
package faulty
