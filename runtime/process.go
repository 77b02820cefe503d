package runtime

// process runs any program that speaks the frame protocol, one for each worker.
var process = Spec{
	Name: "process", Lifetime: LongLived, Code: Command, Process: "process",
	Workers: Count{PerCore: 1}, WorkersMax: 10_000,
	Start: startCommand,
}
