// Package chaos checks a run in which nodes, workers, guardians, servers and connections were killed, frozen or cut off at random moments. It
// reads three things: the log of the callers, the stored executions with their events, and the log of side effects that the actions
// wrote. It says which promises were broken, each with a minimal trace. The checker is a pure function of these three.
// It starts nothing and decides nothing else. Its own tests show that every rule can fail. The suites in the test files
// run the real binary and give the checker what they collected.
//
// Its tests take long: even a reduced storm strikes whole nodes many times, and waits for their leases and for all work to end.
package chaos
