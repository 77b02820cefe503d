package runtime

// shell runs one command for each execution. Two workers a core: commands wait more than they compute.
var shell = Spec{
	Name: "shell", Lifetime: OneShot, Code: Command, SharedQueue: true,
	Workers: Count{PerCore: 2}, WorkersMax: 10_000,
	Start: startCommand,
}
