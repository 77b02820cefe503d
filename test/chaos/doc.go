// Package chaos checks a run in which nodes, workers, guardians, servers and connections were killed, frozen or
// disconnected at random times. It reads three inputs: the log of the callers, the stored executions with their events,
// and the log of side effects that the actions wrote. It reports every broken promise with a minimal trace. The checker
// is a pure function of these three inputs. It starts nothing and decides nothing else. Its own tests show that every
// rule can fail. The suites in the test files run the real binary and pass the collected inputs to the checker.
//
// Its tests take long: even a reduced storm injects many faults into whole nodes, and waits for their leases and for all executions
// to end.
package chaos
