package runtime

import (
	"path/filepath"

	"github.com/troupe-run/troupe/sdk"
)

// python calls functions of Python modules in one interpreter process for each worker.
var python = Spec{
	Name: "python", Lifetime: LongLived, Code: File, Example: "work.py:run", Process: "python process",
	Workers: Count{PerCore: 1}, WorkersMax: 10_000,
	Interpreter: Interpreter{Title: "Python", Default: "python3"},
	SDK:         SDK{Variable: "PYTHONPATH", Path: sdk.PythonPath},
	Start: func(l Launch) Program {
		path := sdk.PythonPath(l.SDK)
		if own, ok := l.Env["PYTHONPATH"]; ok {
			path += string(filepath.ListSeparator) + own
		}
		return Program{
			Argv: []string{l.Interpreter, "-m", "troupe_worker"},
			Env:  []string{"PYTHONPATH=" + path, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"},
		}
	},
}
