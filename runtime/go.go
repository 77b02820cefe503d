package runtime

// goRuntime calls handlers that are registered in the node's own binary. A worker is a goroutine, so a pool has many.
var goRuntime = Spec{
	Name: "go", Lifetime: InNode, Code: Handler, SharedQueue: true,
	Workers: Count{Fixed: 128}, WorkersMax: 100_000,
}
