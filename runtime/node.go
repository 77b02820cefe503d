package runtime

import "github.com/troupe-run/troupe/sdk"

// node calls functions of JavaScript modules in one Node.js process for each worker.
var node = Spec{
	Name: "node", Lifetime: LongLived, Code: File, Example: "work.mjs:run", Process: "node process",
	Workers: Count{PerCore: 1}, WorkersMax: 10_000,
	Interpreter: Interpreter{Title: "Node.js", Default: "node"}, BigNumbers: true,
	Start: func(l Launch) Program {
		p := Program{Argv: []string{l.Interpreter, sdk.NodeMain(l.SDK)}}
		if l.BigNumbers != "" {
			p.Env = []string{"TROUPE_BIG_NUMBERS=" + l.BigNumbers}
		}
		return p
	},
}
